/** The delivery worker: owns shards, fills their lanes, sends, records. Its parts are wired here and nowhere else. */
import type { Sql } from '#database/pool.ts';
import type { Sealer } from '#database/seal.ts';
import type { Clock } from '#kernel/clock.ts';
import type { Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { listenForNews, type LaneName } from './announce.ts';
import { Bodies } from './message/bodies.ts';
import { Discovery } from './lanes/discovery.ts';
import { Dispatcher, type DispatchSettings } from './dispatch/dispatcher.ts';
import { Fetcher } from './lanes/fetcher.ts';
import type { Guard } from './exchange/guard.ts';
import type { Lane, LaneLimits, Pending } from './lanes/lane.ts';
import { Lanes } from './lanes/lanes.ts';
import { createPools, type Pools } from './exchange/pools.ts';
import type { EventRow } from './message/queries.ts';
import { createRecorder, type Recorder } from './record/record.ts';
import { Ownership, type LeaseSettings } from './shards/ownership.ts';
import { Signal } from './signal.ts';

type WorkerSettings = LeaseSettings &
  LaneLimits &
  DispatchSettings & { bodyCacheBytes: number; originPools: number; stopTimeoutMs: number; relationPrefix: string };

/** A delivery straight from its commit, with the event it carries. */
export type HandedOver = { shard: number; delivery: Pending; event: EventRow };

export type WorkerDeps = {
  sql: Sql;
  clock: Clock;
  random: () => number;
  log: Log;
  sealer: Sealer;
  guard: Guard;
  settings: WorkerSettings;
};

/** How long a stop waits for the last records. */
const RECORD_TIMEOUT_MS = 2_000;

export class Worker implements Running {
  readonly #deps: WorkerDeps;
  readonly #lanes: Lanes;
  readonly #bodies: Bodies;
  readonly #pools: Pools;
  readonly #ownership: Ownership;
  readonly #recorder: Recorder;
  readonly #dispatcher: Dispatcher;
  readonly #fetcher: Fetcher;
  readonly #discovery: Discovery;
  readonly #settling = new Signal();
  #news: Running | undefined;
  #stopping: Promise<void> | undefined;

  constructor(deps: WorkerDeps) {
    const { sql, clock, log, settings } = deps;
    this.#deps = deps;
    this.#lanes = new Lanes(settings);
    this.#bodies = new Bodies({ sql, ...settings });
    this.#pools = createPools(deps.guard, settings.originPools);
    this.#ownership = new Ownership({
      sql,
      clock,
      log,
      settings,
      onGained: (shards) => this.#discovery.shards(shards),
      onLost: (shards) => this.#close(shards),
      drain: (shards) => this.#drain(shards),
    });
    this.#recorder = createRecorder({
      sql,
      clock,
      log,
      workerId: settings.workerId,
      fenceOf: (shard) => this.#ownership.fenceOf(shard),
      onLost: (shard) => this.#ownership.lost(shard),
    });
    this.#dispatcher = new Dispatcher({
      clock,
      random: deps.random,
      log,
      settings,
      bodies: this.#bodies,
      pools: this.#pools,
      recorder: this.#recorder,
      mayStart: (shard) => this.#ownership.owns(shard) && this.#ownership.mayAct(),
      onSettled: (lane) => this.#settled(lane),
    });
    const want = (lane: Lane) => this.#fetcher.want(lane);
    const send = (lane: Lane) => this.#send([lane]);
    const owns = (shard: number) => this.#ownership.owns(shard);
    this.#discovery = new Discovery({ sql, clock, log, lanes: this.#lanes, owns, want, onDue: send });
    this.#fetcher = new Fetcher({ sql, clock, log, sealer: deps.sealer, bodies: this.#bodies, onFilled: send });
  }

  async start(): Promise<void> {
    this.#news = await listenForNews(this.#deps.sql, {
      onWork: (lane) => this.#lookAgain(lane),
      onWorkMissed: () => this.#discovery.everything(),
      onWebhook: (lane) => this.webhookChanged(lane),
      onWebhooksMissed: () => this.#lanes.all().forEach((lane) => this.webhookChanged(lane)),
      onEvents: this.eventsErased,
      onEventsMissed: () => this.#bodies.forgetAll(),
    });
    this.#ownership.start();
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
      lane.offer(delivery);
      touched.add(lane);
    }
    this.#send(touched);
    return foreign;
  }

  /** Drops what is known of the webhook: nothing is sent to it before its row was read again. */
  webhookChanged({ shard, webhookId }: LaneName): void {
    const lane = this.#lanes.find(shard, webhookId);
    if (lane === undefined) return;
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
    const { stopTimeoutMs } = this.#deps.settings;
    this.#discovery.stop();
    this.#fetcher.stop();
    this.#dispatcher.stop();
    const late = setTimeout(() => this.#dispatcher.abort(() => true), stopTimeoutMs);
    // With the database gone nothing can be recorded: what is not by then is sent again by the next owner.
    const giveUp = new Promise((resolve) => setTimeout(resolve, stopTimeoutMs + RECORD_TIMEOUT_MS).unref());
    await Promise.race([this.#finish(), giveUp]);
    clearTimeout(late);
    await Promise.race([Promise.all([this.#news?.stop(), this.#ownership.stop()]), giveUp]);
    await this.#pools.stop();
  }

  async #finish(): Promise<void> {
    while (this.#dispatcher.inFlight > 0 || this.#recorder.unrecorded() > 0) await this.#settling.next();
  }

  #send(lanes: Iterable<Lane>): void {
    for (const lane of lanes) {
      this.#discovery.look(lane);
      this.#dispatcher.list(lane);
    }
    this.#dispatcher.pump();
  }

  #lookAgain({ shard, webhookId }: LaneName): void {
    if (!this.#ownership.owns(shard)) return;
    const lane = this.#lanes.get(shard, webhookId);
    lane.lookAgain();
    this.#discovery.look(lane);
  }

  #close(shards: readonly number[]): void {
    for (const shard of shards) this.#lanes.close(shard);
    this.#dispatcher.abort((lane) => lane.isClosed);
  }

  async #drain(shards: readonly number[]): Promise<void> {
    while (![...this.#lanes.ofShards(shards)].every((lane) => lane.isEmptyHanded)) await this.#settling.next();
  }

  #settled(lane: Lane): void {
    this.#discovery.look(lane);
    this.#settling.fire();
  }
}
