/**
 * The public interface of the delivery worker: start, stop, offer committed deliveries, invalidate webhooks and events.
 */
import { within, type Running } from '#core/lifecycle.ts';
import { listenForChanges, type LaneKey, type Work } from './announce.ts';
import { Engine, type EngineDeps, type EngineSettings } from './engine.ts';
import type { Pending } from './policy/entry.ts';
import type { Lane } from './queue/lane.ts';
import type { EventRow } from './delivery-sql.ts';

/** Time limits of a stop: for running exchanges, then for recording their results, then for handing back the shards. */
type StopTimeouts = { exchangesMs: number; recordsMs: number; handBackMs: number };

/** A delivery that this process has just committed, with its event. */
export type CommittedDelivery = { shard: number; delivery: Pending; event: EventRow };

export function workOf({ shard, delivery }: CommittedDelivery): Work {
  return { shard, webhookId: delivery.webhookId, deliveryId: delivery.id };
}

export type WorkerDeps = EngineDeps & { settings: EngineSettings & { stopping: StopTimeouts } };

export class Worker implements Running {
  readonly #deps: WorkerDeps;
  readonly #engine: Engine;
  #listener: Running | undefined;
  /** Wall-clock time when notifications may last have been missed, or shards were taken. */
  #changedAtMs = 0;
  #stopping: Promise<void> | undefined;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
    this.#engine = new Engine(deps, () => this.#noteChange());
  }

  /** Returns whether this worker's lease was confirmed recently enough to act on it. */
  leaseIsValid(): boolean {
    return this.#engine.ownership.isLeaseConfirmed();
  }

  async start(): Promise<void> {
    const { ownership, schedule, discovery, arrivals, bodies, lanes, ownerWrites } = this.#engine;
    this.#listener = await listenForChanges(
      this.#deps.direct,
      {
        onWork: (work) => arrivals.receive(work),
        onWebhook: (lane) => this.webhookChanged(lane),
        onRetry: (requests) => arrivals.retry(requests),
        onEvents: this.eventsErased,
        onMissed: () => {
          this.#noteChange();
          for (const lane of lanes.all()) this.#engine.reloadTarget(lane);
          bodies.forgetAll();
          discovery.scanAll();
        },
      },
      this.#deps.settings.leaseMs,
    );
    ownership.start();
    schedule.start();
    discovery.start();
    ownerWrites.hourlyStats.start();
  }

  /** Queues the deliveries of owned shards. Returns the others, whose owners have to be notified. */
  offer(deliveries: readonly CommittedDelivery[]): CommittedDelivery[] {
    const { ownership, bodies, lanes } = this.#engine;
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
    this.#engine.send(touched);
    return notOwned;
  }

  /**
   * Queues deliveries that another process on this machine has committed a moment ago, and returns those of shards that are not
   * owned. A delivery is read from the table instead if the table may have been read since its commit, because it may have been
   * sent and recorded already, or if an erasure of its event may have been missed.
   */
  receive(deliveries: readonly CommittedDelivery[]): CommittedDelivery[] {
    const { arrivals, lanes } = this.#engine;
    const isFresh = ({ shard, delivery: { webhookId, dueAt } }: CommittedDelivery): boolean =>
      dueAt.getTime() > this.#changedAtMs &&
      lanes.find(shard, webhookId)?.deliveries.wasFetchedSince(dueAt.getTime()) !== true;
    const { fresh = [], late = [] } = Object.groupBy(deliveries, (one) => (isFresh(one) ? 'fresh' : 'late'));
    arrivals.receive(late.map(workOf));
    return [...this.offer(fresh), ...late.filter(({ shard }) => !this.#engine.ownership.owns(shard))];
  }

  /** Returns the worker that owned the shard at the last heartbeat; undefined if none did. */
  ownerOf(shard: number): number | undefined {
    return this.#engine.ownership.ownerOf(shard);
  }

  #noteChange(): void {
    this.#changedAtMs = this.#deps.clock.now().getTime();
  }

  /** Discards the cached settings of the webhook: nothing is sent to it until its row has been read again. */
  webhookChanged({ shard, webhookId }: LaneKey): void {
    const { ownership, lanes } = this.#engine;
    // Also creates a lane if none is in memory: a disabled webhook's deliveries that are not due yet have to be
    // ended too.
    if (ownership.owns(shard)) this.#engine.reloadTarget(lanes.get(shard, webhookId));
  }

  /** Discards cached bodies of these events after an erasure: they are read again before they are sent. */
  readonly eventsErased = (ids: readonly number[]): void => this.#engine.bodies.forget(ids);

  /** Returns the shards that this worker owns; other jobs that run once per shard are distributed by them too. */
  ownedShards(): number[] {
    return this.#engine.ownership.owned();
  }

  /** Polls the table for work, after a COMMIT whose result is unknown. */
  rediscover(): void {
    this.#engine.discovery.scanAll();
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
    const { clock, log } = this.#deps;
    const { exchangesMs, recordsMs, handBackMs } = this.#deps.settings.stopping;
    const { discovery, unfetched, schedule, arrivals, fetcher, dispatcher, connections, ownership, ownerWrites } =
      this.#engine;
    const startedMs = clock.monotonicMs();
    ownership.stopTaking();
    discovery.stop();
    unfetched.stop();
    arrivals.stop();
    schedule.stop();
    fetcher.stop();
    dispatcher.stop();
    let aborted = 0;
    const abortTimer = setTimeout(() => (aborted = this.#engine.abort(() => true)), exchangesMs);
    // Without a database nothing can be recorded: the next owner repeats attempts that are unrecorded by then.
    await within(exchangesMs + recordsMs, { stop: () => this.#finish() }).stop();
    clearTimeout(abortTimer);
    const unrecorded = ownerWrites.recorder.unrecorded();
    await within(handBackMs, { stop: () => this.#handBack() }).stop();
    const tookMs = Math.round(clock.monotonicMs() - startedMs);
    // The next owner repeats the aborted and unrecorded attempts.
    log.info({ aborted, unrecorded, handedBack: ownership.handedBack, tookMs }, 'stopped delivering');
    await connections.stop();
  }

  async #handBack(): Promise<void> {
    const { ownership, ownerWrites } = this.#engine;
    await Promise.all([this.#listener?.stop(), ownership.stop(), ownerWrites.hourlyStats.stop()]);
  }

  async #finish(): Promise<void> {
    const { dispatcher, ownerWrites, completions } = this.#engine;
    while (dispatcher.slots.inFlight > 0 || ownerWrites.recorder.unrecorded() > 0) await completions.next();
  }
}
