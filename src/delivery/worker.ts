/** The delivery worker as the rest of the installation sees it: it is handed work, told of changes, and stopped. */
import { within, type Running } from '#core/lifecycle.ts';
import { listenForChanges, type LaneKey, type Work } from './announce.ts';
import { Engine, type EngineDeps, type EngineSettings } from './engine.ts';
import type { Pending } from './queue/loaded-deliveries.ts';
import type { Lane } from './queue/lane.ts';
import type { EventRow } from './attempt/event-sql.ts';

/** How long a stop waits: for what is on the wire, then for the last records, then for the shards to be handed back. */
type StopTimeouts = { exchangesMs: number; recordsMs: number; handBackMs: number };

/** A delivery straight from its commit, with the event it carries. */
export type CommittedDelivery = { shard: number; delivery: Pending; event: EventRow };

export type WorkerDeps = EngineDeps & { settings: EngineSettings & { stopping: StopTimeouts } };

export class Worker implements Running {
  readonly #deps: WorkerDeps;
  readonly #engine: Engine;
  #listener: Running | undefined;
  #stopping: Promise<void> | undefined;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
    this.#engine = new Engine(deps);
  }

  /** Whether our lease was confirmed recently enough to act on it. */
  leaseIsValid(): boolean {
    return this.#engine.ownership.mayAct();
  }

  async start(): Promise<void> {
    const { ownership, timetable, discovery, arrivals, bodies, lanes, ownerWrites } = this.#engine;
    this.#listener = await listenForChanges(
      this.#deps.direct,
      {
        onWork: (work) => arrivals.heard(work),
        onWebhook: (lane) => this.webhookChanged(lane),
        onEvents: this.eventsErased,
        onMissed: () => {
          for (const lane of lanes.all()) this.#engine.reloadTarget(lane);
          bodies.forgetAll();
          discovery.everything();
        },
      },
      this.#deps.settings.leaseMs,
    );
    ownership.start();
    timetable.start();
    discovery.start();
    ownerWrites.hourlyStats.start();
  }

  /** Takes the deliveries that are ours; answers the others, whose owner must be told. */
  offer(deliveries: readonly CommittedDelivery[]): Work[] {
    const { ownership, bodies, lanes } = this.#engine;
    const notOwned: Work[] = [];
    const touched = new Set<Lane>();
    for (const { shard, delivery, event } of deliveries) {
      if (!ownership.owns(shard)) {
        notOwned.push({ shard, webhookId: delivery.webhookId, deliveryId: delivery.id });
        continue;
      }
      const lane = lanes.get(shard, delivery.webhookId);
      if (lane.holding.takesOffers) bodies.put(event);
      lane.holding.offer(delivery);
      touched.add(lane);
    }
    this.#engine.send(touched);
    return notOwned;
  }

  /** Drops what is known of the webhook: nothing is sent to it before its row was read again. */
  webhookChanged({ shard, webhookId }: LaneKey): void {
    const { ownership, lanes } = this.#engine;
    // Also where nothing is in memory: if it was switched off, what it has that is not due yet is ended too.
    if (ownership.owns(shard)) this.#engine.reloadTarget(lanes.get(shard, webhookId));
  }

  /** Something of these events was erased: they are read again before they are sent. */
  readonly eventsErased = (ids: readonly number[]): void => this.#engine.bodies.forget(ids);

  /** The shards that this worker has at the moment: other work that is done once may be shared out by them too. */
  ownedShards(): number[] {
    return this.#engine.ownership.owned();
  }

  /** Looks for work in the table: after a COMMIT whose result is unknown. */
  rediscover(): void {
    this.#engine.discovery.everything();
  }

  /** Stops taking, finishes what is in flight within the time-out, records it, hands the shards back. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { clock, log } = this.#deps;
    const { exchangesMs, recordsMs, handBackMs } = this.#deps.settings.stopping;
    const { discovery, unfetched, timetable, arrivals, fetcher, dispatcher, connections, ownership, ownerWrites } =
      this.#engine;
    const startedMs = clock.monotonicMs();
    ownership.stopTaking();
    discovery.stop();
    unfetched.stop();
    arrivals.stop();
    timetable.stop();
    fetcher.stop();
    dispatcher.stop();
    let aborted = 0;
    const abortTimer = setTimeout(() => (aborted = this.#engine.abort(() => true)), exchangesMs);
    // With the database gone nothing can be recorded: what is not by then is sent again by the next owner.
    await within(exchangesMs + recordsMs, { stop: () => this.#finish() }).stop();
    clearTimeout(abortTimer);
    const unrecorded = ownerWrites.recorder.unrecorded();
    await within(handBackMs, { stop: () => this.#handBack() }).stop();
    const tookMs = Math.round(clock.monotonicMs() - startedMs);
    // The first two are sent again by the next owner.
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
