/**
 * The public interface of the delivery worker: start, stop, offer committed deliveries, invalidate webhooks and events. Its parts are
 * constructed in the order in which they use each other.
 */
import { within, type Running } from '#core/lifecycle.ts';
import type { Clock } from '#core/clock.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { listenForChanges, type LaneKey, type Work } from './announce.ts';
import { Bodies } from './attempt/bodies.ts';
import { Connections, type ConnectionSettings } from './attempt/http/endpoint-connections.ts';
import { Composer, type ComposerSettings } from './attempt/attempt-request.ts';
import type { EngineMetrics } from './delivery-metrics.ts';
import type { EventRow } from './delivery-sql.ts';
import { HourlyStats, type HourlyStatsSettings, createAttemptLog, createWarnings, type Notify } from './outcomes.ts';
import { Ownership, type LeaseSettings } from './leases/ownership.ts';
import type { Pending } from './policy/entry.ts';
import { Unfetched } from './pull/pull-streams.ts';
import { Quarantine } from './quarantine.ts';
import { Arrivals } from './queue/arrivals.ts';
import { Discovery } from './queue/discovery.ts';
import { Dispatcher, type DispatchSettings } from './queue/dispatcher.ts';
import { Fetcher } from './queue/fetcher.ts';
import type { Lane } from './queue/lane.ts';
import { FetchRequests, Lanes, type LanesLimits } from './queue/lanes.ts';
import { PendingDisables, type DisableWebhook } from './queue/ending.ts';
import { createRecorder } from './record/record.ts';
import type { ShardEvents } from './leases/balance.ts';

/** Time limits of a stop: for running exchanges, then for recording their results, then for handing back the shards. */
type StopTimeouts = { exchangesMs: number; recordsMs: number; handBackMs: number };

/** A delivery that this process has just committed, with its event. */
export type CommittedDelivery = { shard: number; delivery: Pending; event: EventRow };

export function workOf({ shard, delivery }: CommittedDelivery): Work {
  return { shard, webhookId: delivery.webhookId, deliveryId: delivery.id };
}

type WorkerRuntime = Pick<Runtime, 'sql' | 'direct' | 'clock' | 'pace' | 'random' | 'log' | 'sealer' | 'guard'>;

type WorkerSettings = LeaseSettings &
  LanesLimits &
  DispatchSettings &
  ConnectionSettings &
  ComposerSettings &
  HourlyStatsSettings & { unfetchedDays: number; bodyCacheBytes: number; stopping: StopTimeouts };

type WorkerOptions = {
  settings: WorkerSettings;
  metrics: EngineMetrics;
  /** Disables a webhook, in the transaction that locks its shard lease. */
  disableWebhook: DisableWebhook;
  /** Notifies a store about the state of its webhook. */
  notify: Notify;
  /** The clock of the leases, if it is not that of the lanes: a test advances the latter by hours without losing a shard. */
  leaseClock?: Clock;
};

/** Constructs the parts of a worker: each uses only those above it. */
function createParts(
  runtime: WorkerRuntime,
  { settings, metrics, disableWebhook, notify, leaseClock: clock = runtime.clock }: WorkerOptions,
) {
  const { direct, log, pace } = runtime;
  const composer = new Composer(settings);
  const connections = new Connections(runtime, settings);
  const bodies = new Bodies(runtime, settings);
  const lanes = new Lanes(settings, bodies);
  const requests = new FetchRequests();
  const ownership = new Ownership({ direct, clock, log, pace }, settings, metrics.shards);
  // The writes of a shard owner, which check its fencing tokens: quarantine markers, results, pending disables.
  const quarantine = new Quarantine(runtime, ownership);
  const hourlyStats = new HourlyStats(runtime, settings);
  const recorder = createRecorder(runtime, { ownership, quarantine, lanes }, [
    metrics.attempts,
    hourlyStats,
    createAttemptLog(log, settings.workerId),
    createWarnings(log, notify),
  ]);
  const pendingDisables = new PendingDisables(runtime, {
    ownership,
    requests,
    metrics,
    disableWebhook,
    notify,
    settings,
  });
  const dispatcher = new Dispatcher(
    runtime,
    { ownership, bodies, composer, connections, quarantine, recorder, requests, metrics: metrics.attempts },
    settings,
  );
  const fetcher = new Fetcher(runtime, { ownership, bodies, pendingDisables, requests, dispatcher });
  const unfetched = new Unfetched(runtime, ownership, settings);
  const discovery = new Discovery(runtime, { lanes, ownership, unfetched, requests, dispatcher });
  const arrivals = new Arrivals(runtime, { ownership, lanes, bodies, requests, dispatcher });
  return {
    connections,
    bodies,
    lanes,
    requests,
    ownership,
    quarantine,
    hourlyStats,
    recorder,
    fetcher,
    dispatcher,
    unfetched,
    discovery,
    arrivals,
  };
}

export class Worker implements Running {
  readonly #runtime: WorkerRuntime;
  readonly #settings: WorkerSettings;
  readonly #parts: ReturnType<typeof createParts>;
  #listener: Running | undefined;
  #changes = 0;
  /** Wall-clock time when notifications may last have been missed, or shards were taken. */
  #changedAtMs = 0;
  #stopping: Promise<void> | undefined;

  constructor(runtime: WorkerRuntime, options: WorkerOptions) {
    this.#runtime = runtime;
    this.#settings = options.settings;
    this.#parts = createParts(runtime, options);
    options.metrics.watch(runtime.clock, options.settings.slots, this.#parts);
  }

  /** Returns whether this worker can deliver: its lease is confirmed, or will be as soon as there is work. */
  isUsable(): boolean {
    const { ownership } = this.#parts;
    return ownership.isQuiet || ownership.isLeaseConfirmed();
  }

  async start(): Promise<void> {
    const { ownership, dispatcher, discovery, arrivals, bodies, lanes, requests, hourlyStats } = this.#parts;
    this.#listener = await listenForChanges(
      this.#runtime.direct,
      {
        onWork: (announced) => arrivals.receive(announced),
        onWebhook: (lane) => this.webhookChanged(lane),
        onRetry: (announced) => arrivals.retry(announced),
        onEvents: this.eventsErased,
        onMissed: () => {
          this.#noteChange();
          for (const lane of lanes.all()) requests.reload(lane);
          bodies.forgetAll();
          discovery.scanAll();
        },
      },
      { silenceMs: this.#settings.leaseMs, pace: this.#runtime.pace },
    );
    ownership.start(this.#shardEvents());
    dispatcher.start();
    discovery.start();
    hourlyStats.start();
  }

  #noteChange(): void {
    this.#changes += 1;
    this.#changedAtMs = this.#runtime.clock.now().getTime();
  }

  /** The work of the owned shards: begins when a shard is taken, and ends when it is lost or handed back. */
  #shardEvents(): ShardEvents {
    const { lanes, quarantine, recorder, requests, dispatcher, discovery } = this.#parts;
    return {
      gained: (shards) => {
        this.#noteChange();
        void this.#begin(shards);
      },
      lost: (shards) => {
        for (const shard of shards) lanes.close(shard);
        quarantine.lost(shards);
        dispatcher.abort((lane) => lane.isClosed);
      },
      // Notifications were ignored meanwhile.
      kept: (shards) => {
        this.#changes += 1;
        for (const lane of lanes.ofShards(shards)) requests.reload(lane);
        discovery.scanShards(shards);
      },
      drain: async (shards) => {
        dispatcher.send(quarantine.release(({ shard }) => shards.includes(shard)));
        for (;;) {
          const empty = shards.filter((shard) =>
            [...lanes.ofShards([shard])].every((lane) => lane.deliveries.isFullyRecorded),
          );
          if (empty.length > 0) return empty;
          await dispatcher.completions.next();
        }
      },
      isRecording: recorder.isRecording,
    };
  }

  /** Loads the quarantine of taken shards, then their work. */
  async #begin(shards: readonly number[]): Promise<void> {
    const { lanes, quarantine, dispatcher, discovery } = this.#parts;
    try {
      const ready = await quarantine.load(shards);
      // Lanes may have received work before the shard was ready, and polling does not return rows that are in memory already.
      dispatcher.send(lanes.ofShards(ready));
      discovery.scanShards(ready);
    } catch (error) {
      this.#runtime.log.error(
        { err: error, shards },
        'starting the work of shards failed; their webhooks are scanned again',
      );
      discovery.scanShards(shards);
    }
  }

  /** Queues the deliveries of owned shards. Returns the others, whose owners have to be notified. */
  offer(deliveries: readonly CommittedDelivery[]): CommittedDelivery[] {
    const { ownership, bodies, lanes, dispatcher } = this.#parts;
    void this.#runtime.pace.work();
    const notOwned: CommittedDelivery[] = [];
    const touched = new Set<Lane>();
    for (const committed of deliveries) {
      const { shard, delivery, event } = committed;
      if (!ownership.owns(shard)) {
        notOwned.push(committed);
        continue;
      }
      const lane = lanes.get(shard, delivery.webhookId);
      if (lane.deliveries.acceptsOffers) bodies.put(event);
      lane.deliveries.offer(delivery);
      touched.add(lane);
    }
    dispatcher.send(touched);
    return notOwned;
  }

  /**
   * Queues deliveries that another process on this machine has committed a moment ago, and returns those of shards that are not
   * owned. A delivery is read from the table instead if the table may have been read since its commit, because it may have been
   * sent and recorded already, or if an erasure of its event may have been missed.
   */
  receive(deliveries: readonly CommittedDelivery[]): CommittedDelivery[] {
    const { arrivals, lanes, ownership } = this.#parts;
    const isFresh = ({ shard, delivery: { webhookId, dueAt } }: CommittedDelivery): boolean =>
      dueAt.getTime() > this.#changedAtMs &&
      lanes.find(shard, webhookId)?.deliveries.wasFetchedSince(dueAt.getTime()) !== true;
    const { fresh = [], late = [] } = Object.groupBy(deliveries, (one) => (isFresh(one) ? 'fresh' : 'late'));
    arrivals.receive(late.map(workOf));
    return [...this.offer(fresh), ...late.filter(({ shard }) => !ownership.owns(shard))];
  }

  /** Returns the worker that owned the shard at the last heartbeat; undefined if none did. */
  ownerOf(shard: number): number | undefined {
    return this.#parts.ownership.ownerOf(shard);
  }

  /** Rises when a webhook has changed, shards were taken or kept, or notifications may have been missed. */
  get changes(): number {
    return this.#changes;
  }

  /** Discards the cached settings of the webhook: nothing is sent to it until its row has been read again. */
  webhookChanged({ shard, webhookId }: LaneKey): void {
    this.#changes += 1;
    const { ownership, lanes, requests } = this.#parts;
    // Also creates a lane if none is in memory: a disabled webhook's deliveries that are not due yet have to be
    // ended too.
    if (ownership.owns(shard)) requests.reload(lanes.get(shard, webhookId));
  }

  /** Discards cached bodies of these events after an erasure: they are read again before they are sent. */
  readonly eventsErased = (ids: readonly number[]): void => this.#parts.bodies.forget(ids);

  /** Returns the shards that this worker owns; other jobs that run once per shard are distributed by them too. */
  ownedShards(): number[] {
    return this.#parts.ownership.owned();
  }

  /** Polls the table for work, after a COMMIT whose result is unknown. */
  rediscover(): void {
    const { discovery, lanes } = this.#parts;
    // The scan fetches nothing for a lane that has its earliest delivery in memory.
    for (const { deliveries } of lanes.all()) if (deliveries.hasWork) deliveries.markIncomplete();
    discovery.scanAll();
  }

  /**
   * Takes no new work, finishes running exchanges within the time limit, records their results and hands back the
   * shards.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { clock, log } = this.#runtime;
    const { exchangesMs, recordsMs, handBackMs } = this.#settings.stopping;
    const { discovery, unfetched, arrivals, fetcher, dispatcher, connections, ownership, recorder } = this.#parts;
    const startedMs = clock.monotonicMs();
    ownership.stopTaking();
    discovery.stop();
    unfetched.stop();
    arrivals.stop();
    fetcher.stop();
    dispatcher.stop();
    let aborted = 0;
    const abortTimer = setTimeout(() => (aborted = dispatcher.abort(() => true)), exchangesMs);
    // Without a database nothing can be recorded: the next owner repeats attempts that are unrecorded by then.
    await within(exchangesMs + recordsMs, { stop: () => this.#finish() }).stop();
    clearTimeout(abortTimer);
    const unrecorded = recorder.unrecorded();
    await within(handBackMs, { stop: () => this.#handBack() }).stop();
    const tookMs = Math.round(clock.monotonicMs() - startedMs);
    // The next owner repeats the aborted and unrecorded attempts.
    log.info({ aborted, unrecorded, handedBack: ownership.handedBack, tookMs }, 'stopped delivering');
    await connections.stop();
  }

  async #handBack(): Promise<void> {
    const { ownership, hourlyStats } = this.#parts;
    await Promise.all([this.#listener?.stop(), ownership.stop(), hourlyStats.stop()]);
  }

  async #finish(): Promise<void> {
    const { dispatcher, recorder } = this.#parts;
    while (dispatcher.slots.inFlight > 0 || recorder.unrecorded() > 0) await dispatcher.completions.next();
  }
}
