/** The delivery worker: owns shards, fills their lanes, sends, records. Its parts are wired here and nowhere else. */
import type { Sql } from '#database/pool.ts';
import type { Sealer } from '#database/seal.ts';
import type { Clock } from '#kernel/clock.ts';
import { within, type Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { listenForNews, type LaneName } from './announce.ts';
import { Bodies } from './message/bodies.ts';
import { Discovery } from './lanes/discovery.ts';
import { Dispatcher, type DispatchSettings } from './dispatch/dispatcher.ts';
import { Fetcher } from './lanes/fetcher.ts';
import type { Guard } from './exchange/guard.ts';
import type { Lane } from './lanes/lane.ts';
import type { Pending } from './lanes/holding.ts';
import { Lanes, type LanesLimits } from './lanes/lanes.ts';
import { Timetable } from './lanes/timetable.ts';
import type { EngineMetrics } from './metrics/metrics.ts';
import { observed } from './metrics/observed.ts';
import { Connections, type ConnectionSettings } from './exchange/connections.ts';
import type { EventRow } from './message/queries.ts';
import type { Recorder } from './record/record.ts';
import type { SwitchOff } from './record/switch-off.ts';
import type { LeaseSettings } from './shards/heartbeat.ts';
import { Ownership } from './shards/ownership.ts';
import { Signal } from './signal.ts';
import { openUnderFence, type UnderFence } from './under-fence.ts';

type WorkerSettings = LeaseSettings &
  LanesLimits &
  DispatchSettings &
  ConnectionSettings & { bodyCacheBytes: number; relationPrefix: string; stopping: StopShares };

/** How long a stop waits: for what is on the wire, then for the last records, then for the shards to be handed back. */
type StopShares = { exchangesMs: number; recordsMs: number; handBackMs: number };

/** A delivery straight from its commit, with the event it carries. */
export type HandedOver = { shard: number; delivery: Pending; event: EventRow };

export type WorkerDeps = {
  sql: Sql;
  /** For what needs a connection to PostgreSQL itself: words from other processes, the heartbeat. */
  direct: Sql;
  clock: Clock;
  random: () => number;
  log: Log;
  sealer: Sealer;
  guard: Guard;
  metrics: EngineMetrics;
  /** Switches a webhook off, in the transaction that holds its shard. */
  switchOff: SwitchOff;
  settings: WorkerSettings;
};

export class Worker implements Running {
  readonly #deps: WorkerDeps;
  readonly #lanes: Lanes;
  readonly #bodies: Bodies;
  readonly #connections: Connections;
  readonly #ownership: Ownership;
  readonly #recorder: Recorder;
  readonly #underFence: UnderFence;
  readonly #dispatcher: Dispatcher;
  readonly #fetcher: Fetcher;
  readonly #discovery: Discovery;
  readonly #timetable: Timetable;
  readonly #settling = new Signal();
  #news: Running | undefined;
  #stopping: Promise<void> | undefined;

  constructor(deps: WorkerDeps) {
    const { sql, clock, log, settings } = deps;
    this.#deps = deps;
    this.#lanes = new Lanes(settings);
    this.#bodies = new Bodies({ sql, ...settings });
    this.#connections = new Connections({ guard: deps.guard, clock, settings });
    this.#ownership = new Ownership({
      direct: deps.direct,
      clock,
      log,
      metrics: deps.metrics.shards,
      settings,
      onGained: (shards) => this.#underFence.suspects.gained(shards),
      onLost: (shards) => this.#close(shards),
      drain: (shards) => this.#drain(shards),
    });
    const who = { workerId: settings.workerId, fenceOf: (shard: number) => this.#ownership.fenceOf(shard) };
    this.#underFence = openUnderFence({
      ...deps,
      workerId: settings.workerId,
      ownership: this.#ownership,
      onReady: (shards) => this.#discovery.shards(shards),
      onReturned: (lane) => this.#send([lane]),
      onSwitchedOff: (lane) => this.#fetcher.want(lane),
    });
    const { recorder, suspects, switchOffs } = this.#underFence;
    this.#recorder = observed(recorder, { clock, log, metrics: deps.metrics.attempts, who });
    this.#dispatcher = new Dispatcher({
      clock,
      random: deps.random,
      log,
      settings,
      bodies: this.#bodies,
      connections: this.#connections,
      recorder: this.#recorder,
      suspects,
      mayStart: (shard) => this.#ownership.owns(shard) && this.#ownership.mayAct() && suspects.isReady(shard),
      onSettled: (lane) => this.#settled(lane),
      onPaced: (lane) => this.#timetable.look(lane),
    });
    const want = (lane: Lane) => this.#fetcher.want(lane);
    const send = (lane: Lane) => this.#send([lane]);
    const onCondemned = (lane: Lane, epoch: number) => switchOffs.demand(lane, epoch);
    const owns = (shard: number) => this.#ownership.owns(shard);
    this.#timetable = new Timetable({ clock, want, onDue: send });
    const look = (lane: Lane) => this.#timetable.look(lane);
    this.#discovery = new Discovery({ sql, clock, log, lanes: this.#lanes, owns, look });
    this.#fetcher = new Fetcher({
      sql,
      clock,
      log,
      sealer: deps.sealer,
      bodies: this.#bodies,
      onFilled: send,
      onCondemned,
    });
  }

  /** Whether our lease was confirmed recently enough to act on it. */
  isSure(): boolean {
    return this.#ownership.mayAct();
  }

  async start(): Promise<void> {
    const owning = { lanes: this.#lanes, ownership: this.#ownership, recorder: this.#recorder };
    const sending = { dispatcher: this.#dispatcher, connections: this.#connections };
    this.#deps.metrics.watch({ ...this.#deps, ...owning, ...sending });
    this.#news = await listenForNews(this.#deps.direct, {
      onWork: (lane) => this.#lookAgain(lane),
      onWorkMissed: () => this.#discovery.everything(),
      onWebhook: (lane) => this.webhookChanged(lane),
      onWebhooksMissed: () => this.#lanes.all().forEach((lane) => this.webhookChanged(lane)),
      onEvents: this.eventsErased,
      onEventsMissed: () => this.#bodies.forgetAll(),
    });
    this.#ownership.start();
    this.#timetable.start();
    this.#discovery.start();
  }

  /** Takes the deliveries that are ours; answers the lanes of the others, whose owner must be told. */
  offer(deliveries: readonly HandedOver[]): LaneName[] {
    const foreign: LaneName[] = [];
    const touched = new Set<Lane>();
    for (const { shard, delivery, event } of deliveries) {
      if (!this.#ownership.owns(shard)) {
        foreign.push({ shard, webhookId: delivery.webhookId });
        continue;
      }
      this.#bodies.put(event);
      const lane = this.#lanes.get(shard, delivery.webhookId);
      lane.holding.offer(delivery);
      touched.add(lane);
    }
    this.#send(touched);
    return foreign;
  }

  /** Drops what is known of the webhook: nothing is sent to it before its row was read again. */
  webhookChanged({ shard, webhookId }: LaneName): void {
    if (!this.#ownership.owns(shard)) return;
    // Also where nothing is in memory: if it was switched off, what it has that is not due yet is ended too.
    const lane = this.#lanes.get(shard, webhookId);
    lane.forgetTarget();
    this.#fetcher.want(lane);
  }

  /** Something of these events was erased: they are read again before they are sent. */
  readonly eventsErased = (ids: readonly number[]): void => this.#bodies.forget(ids);

  /** The shards that this worker has at the moment: other work that is done once may be shared out by them too. */
  ownedShards(): number[] {
    return this.#ownership.owned();
  }

  /** Looks for work in the table: after a COMMIT whose result is unknown. */
  rediscover(): void {
    this.#discovery.everything();
  }

  /** Stops taking, finishes what is in flight within the time-out, records it, hands the shards back. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { exchangesMs, recordsMs, handBackMs } = this.#deps.settings.stopping;
    this.#discovery.stop();
    this.#timetable.stop();
    this.#fetcher.stop();
    this.#dispatcher.stop();
    const late = setTimeout(() => this.#dispatcher.abort(() => true), exchangesMs);
    // With the database gone nothing can be recorded: what is not by then is sent again by the next owner.
    await within(exchangesMs + recordsMs, { stop: () => this.#finish() }).stop();
    clearTimeout(late);
    await within(handBackMs, { stop: () => this.#handBack() }).stop();
    await this.#connections.stop();
  }

  async #handBack(): Promise<void> {
    await Promise.all([this.#news?.stop(), this.#ownership.stop()]);
  }

  async #finish(): Promise<void> {
    while (this.#dispatcher.inFlight > 0 || this.#recorder.unrecorded() > 0) await this.#settling.next();
  }

  #send(lanes: Iterable<Lane>): void {
    for (const lane of lanes) {
      this.#timetable.look(lane);
      this.#dispatcher.list(lane);
    }
    this.#dispatcher.pump();
  }

  #lookAgain({ shard, webhookId }: LaneName): void {
    if (!this.#ownership.owns(shard)) return;
    const lane = this.#lanes.get(shard, webhookId);
    lane.holding.lookAgain();
    this.#timetable.look(lane);
  }

  #close(shards: readonly number[]): void {
    for (const shard of shards) this.#lanes.close(shard);
    this.#underFence.suspects.lost(shards);
    this.#dispatcher.abort((lane) => lane.isClosed);
  }

  async #drain(shards: readonly number[]): Promise<number[]> {
    this.#underFence.suspects.release(({ shard }) => shards.includes(shard));
    for (;;) {
      const empty = shards.filter((shard) =>
        [...this.#lanes.ofShards([shard])].every((lane) => lane.holding.isSettled),
      );
      if (empty.length > 0) return empty;
      await this.#settling.next();
    }
  }

  #settled(lane: Lane): void {
    this.#timetable.look(lane);
    this.#settling.fire();
  }
}
