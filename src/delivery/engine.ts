/** Wires the components of a worker and moves lanes between them. */
import type { Sql } from '#db/pool.ts';
import type { Sealer } from '#db/seal.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import { Dispatcher, type DispatchSettings } from './queue/dispatcher.ts';
import { Connections, type ConnectionSettings } from './attempt/http/connections.ts';
import type { Guard } from '#core/guard.ts';
import { Unfetched } from './pull/unfetched.ts';
import { Arrivals } from './queue/arrivals.ts';
import { Discovery } from './queue/discovery.ts';
import { Fetcher } from './queue/fetcher.ts';
import type { Lane } from './queue/lane.ts';
import { Lanes, type LanesLimits } from './queue/lanes.ts';
import { Schedule } from './queue/schedule.ts';
import { Bodies } from './attempt/bodies.ts';
import { Composer, type ComposerSettings } from './attempt/request.ts';
import type { EngineMetrics } from './delivery-metrics.ts';
import { observeRecorder } from './attempt-metrics.ts';
import { Quarantine } from './quarantine.ts';
import { withWarnings, type Notify, createRecorder } from './record/record.ts';
import { PendingDisables, type DisableWebhook } from './record/pending-disable.ts';
import type { LeaseSettings } from './leases/heartbeat.ts';
import { Ownership } from './leases/ownership.ts';
import { HourlyStats, type HourlyStatsSettings } from './hourly.ts';

/** A recurring event that can be awaited. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  fire(): void {
    if (this.#waiting.size === 0) return;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  /** Resolves at the next `fire`. */
  next(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }
}

export type EngineSettings = LeaseSettings &
  LanesLimits &
  DispatchSettings &
  ConnectionSettings &
  ComposerSettings &
  HourlyStatsSettings & { unfetchedDays: number; bodyCacheBytes: number };

export type EngineDeps = {
  sql: Sql;
  /** A pool without a connection pooler in between, for LISTEN and the heartbeat. */
  direct: Sql;
  clock: Clock;
  /**
   * The clock of the leases. Separate, so that a test can advance the clock of the lanes by hours without losing a
   * shard.
   */
  leaseClock: Clock;
  random: () => number;
  log: Log;
  sealer: Sealer;
  guard: Guard;
  metrics: EngineMetrics;
  /** Disables a webhook, in the transaction that locks its shard lease. */
  disableWebhook: DisableWebhook;
  /** Notifies a store about the state of its webhook. */
  notify: Notify;
  settings: EngineSettings;
};

/** Opens the writes of a shard owner, which check its fencing tokens: results, quarantine markers, pending disables. */
function openOwnerWrites({
  ownership,
  onReady,
  onReturned,
  onDisabled,
  isOrdered,
  ...deps
}: EngineDeps & {
  ownership: Ownership;
  /** Deliveries of these shards may be sent. */
  onReady: (shards: number[]) => void;
  /** The lane may have something to send. */
  onReturned: (lane: Lane) => void;
  /** The settings of the lane's webhook have to be read again. */
  onDisabled: (lane: Lane) => void;
  /** Returns whether deliveries of the webhook may wait for an earlier one. */
  isOrdered: (shard: number, webhookId: number) => boolean;
}) {
  const { sql, clock, log, metrics, settings, disableWebhook, notify } = deps;
  const { workerId } = settings;
  const fenceOf = (shard: number) => ownership.fenceOf(shard);
  const onLost = (shard: number, fence: number) => ownership.lost(shard, fence);
  const fenced = { sql, clock, log, workerId, fenceOf, onLost };
  const crashCountOf = (shard: number) => ownership.crashCounts.of(shard);
  const quarantine = new Quarantine<Lane>({ ...fenced, crashCountOf, onReady, onReturned });
  const hourlyStats = new HourlyStats({ sql, log, settings });
  const recorder = createRecorder({
    ...fenced,
    lastFenceOf: ownership.lastFenceOf,
    isMarked: (shard, id) => quarantine.isMarked(shard, id),
    isOrdered,
  });
  const observed = observeRecorder(recorder, { clock, log, metrics: metrics.attempts, hourlyStats, workerId });
  const disabling = { metrics, settings, disableWebhook, notify, onDone: onDisabled };
  return {
    quarantine,
    hourlyStats,
    pendingDisables: new PendingDisables<Lane>({ ...fenced, ...disabling }),
    recorder: withWarnings(observed, { log, notify }),
  };
}

export class Engine {
  readonly lanes: Lanes;
  readonly bodies: Bodies;
  readonly connections: Connections;
  readonly ownership: Ownership;
  readonly ownerWrites: ReturnType<typeof openOwnerWrites>;
  readonly dispatcher: Dispatcher;
  readonly fetcher: Fetcher;
  readonly arrivals: Arrivals;
  readonly unfetched: Unfetched;
  readonly discovery: Discovery;
  readonly schedule: Schedule;
  /** Fires whenever a delivery was completed or returned to the table. */
  readonly completions = new Signal();
  readonly #metrics: EngineMetrics;

  /** `onGained` is called when shards were taken, before any of their deliveries is sent. */
  constructor(deps: EngineDeps, onGained: () => void) {
    const { sql, clock, log, settings, metrics } = deps;
    this.#metrics = metrics;
    const requestFetch = (lane: Lane, isUrgent?: true) => this.fetcher.request(lane, isUrgent);
    const send = (lane: Lane) => this.send([lane]);
    const owns = (shard: number) => this.ownership.owns(shard);
    const renew = (lane: Lane) => this.reloadTarget(lane);
    this.bodies = new Bodies({ sql, ...settings });
    this.lanes = new Lanes(settings, this.bodies);
    this.connections = new Connections({ guard: deps.guard, clock, settings });
    this.ownership = new Ownership({
      ...deps,
      clock: deps.leaseClock,
      metrics: metrics.shards,
      onGained: (shards) => {
        onGained();
        this.ownerWrites.quarantine.gained(shards);
      },
      onLost: (shards) => this.#close(shards),
      drain: (shards) => this.#drain(shards),
      onKept: (shards) => this.#resume(shards),
      isRecording: (shard) => this.ownerWrites.recorder.isRecording(shard),
    });
    this.ownerWrites = openOwnerWrites({
      ...deps,
      ownership: this.ownership,
      onReady: (shards) => {
        // Lanes may have received work before the shard was ready, and polling does not return rows that are in memory
        // already.
        this.send(this.lanes.ofShards(shards));
        this.discovery.scanShards(shards);
      },
      onReturned: send,
      onDisabled: renew,
      isOrdered: (shard, webhookId) => this.lanes.find(shard, webhookId)?.deliveries.isOrdered === true,
    });
    const { recorder, quarantine, pendingDisables } = this.ownerWrites;
    this.dispatcher = new Dispatcher({
      ...deps,
      idleMs: () => performance.nodeTiming.idleTime,
      bodies: this.bodies,
      composer: new Composer(settings),
      connections: this.connections,
      recorder,
      quarantine,
      mayStart: (shard) => this.ownership.owns(shard) && this.ownership.isLeaseConfirmed() && quarantine.isReady(shard),
      mayBegin: (shard) => this.ownership.fenceOf(shard) !== undefined && this.ownership.isLeaseConfirmed(),
      fenceOf: (shard) => this.ownership.fenceOf(shard),
      isLeaseConfirmed: () => this.ownership.isLeaseConfirmed(),
      onCompleted: (lane) => this.#completed(lane),
      onRateLimited: (lane) => this.schedule.update(lane),
    });
    this.schedule = new Schedule({ clock, requestFetch, onDue: send });
    const onEvicted = () => {
      this.schedule.removeClosed();
      this.dispatcher.removeClosed();
    };
    this.unfetched = new Unfetched({ sql, clock, log, owns, settings });
    const endUnfetched = (shard: number, webhookId: number) => this.unfetched.end(shard, webhookId);
    const discoveryDeps = { lanes: this.lanes, owns, activate: send, reload: renew, endUnfetched, onEvicted };
    this.discovery = new Discovery({ sql, clock, log, ...discoveryDeps });
    const onPendingDisable = (lane: Lane, epoch: number) => pendingDisables.request(lane, epoch);
    const { sealer } = deps;
    const fenced = { workerId: settings.workerId, fenceOf: (shard: number) => this.ownership.fenceOf(shard) };
    const fetcherDeps = { sealer, bodies: this.bodies, onFilled: send, onPendingDisable };
    this.fetcher = new Fetcher({ sql, clock, log, ...fenced, ...fetcherDeps });
    const { lanes, bodies } = this;
    const onArrived = (arrived: Iterable<Lane>) => this.send(arrived);
    this.arrivals = new Arrivals({ sql, clock, log, lanes, bodies, owns, requestFetch, onArrived });
    metrics.watch({ clock, settings, engine: this });
  }

  /** Starts what the lanes can send and schedules their timers and fetches. */
  send(lanes: Iterable<Lane>): void {
    for (const lane of lanes) {
      this.schedule.update(lane);
      this.dispatcher.enqueue(lane);
    }
    this.dispatcher.pump();
  }

  /**
   * Discards the settings of a webhook that may have changed: nothing is sent to it until its row has been read again.
   */
  reloadTarget(lane: Lane): void {
    lane.forgetTarget();
    this.fetcher.request(lane);
  }

  /** Aborts every exchange of the lanes that `matches` selects, without recording a result. Returns their number. */
  abort(matches: (lane: Lane) => boolean): number {
    const aborted = this.dispatcher.abort(matches);
    this.#metrics.attempts.aborted(aborted);
    return aborted;
  }

  #close(shards: readonly number[]): void {
    for (const shard of shards) this.lanes.close(shard);
    this.ownerWrites.quarantine.lost(shards);
    this.abort((lane) => lane.isClosed);
  }

  /** Reads webhooks and work of these shards again: notifications were ignored while a hand-back was in progress. */
  #resume(shards: readonly number[]): void {
    for (const lane of this.lanes.ofShards(shards)) this.reloadTarget(lane);
    this.discovery.scanShards(shards);
  }

  async #drain(shards: readonly number[]): Promise<number[]> {
    this.ownerWrites.quarantine.release(({ shard }) => shards.includes(shard));
    for (;;) {
      const empty = shards.filter((shard) =>
        [...this.lanes.ofShards([shard])].every((lane) => lane.deliveries.isFullyRecorded),
      );
      if (empty.length > 0) return empty;
      await this.completions.next();
    }
  }

  #completed(lane: Lane): void {
    this.schedule.update(lane);
    this.completions.fire();
  }
}
