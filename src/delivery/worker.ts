/** The delivery worker as the rest of the installation sees it: it is handed work, told of changes, and stopped. */
import { within, type Running } from '#core/lifecycle.ts';
import { listenForNews, type LaneName, type Work } from './announce.ts';
import { Engine, type EngineDeps, type EngineSettings } from './engine.ts';
import type { Pending } from './queue/loaded-deliveries.ts';
import type { Lane } from './queue/lane.ts';
import type { EventRow } from './attempt/event-sql.ts';

/** How long a stop waits: for what is on the wire, then for the last records, then for the shards to be handed back. */
type StopShares = { exchangesMs: number; recordsMs: number; handBackMs: number };

/** A delivery straight from its commit, with the event it carries. */
export type HandedOver = { shard: number; delivery: Pending; event: EventRow };

export type WorkerDeps = EngineDeps & { settings: EngineSettings & { stopping: StopShares } };

export class Worker implements Running {
  readonly #deps: WorkerDeps;
  readonly #engine: Engine;
  #news: Running | undefined;
  #stopping: Promise<void> | undefined;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
    this.#engine = new Engine(deps);
  }

  /** Whether our lease was confirmed recently enough to act on it. */
  isSure(): boolean {
    return this.#engine.ownership.mayAct();
  }

  async start(): Promise<void> {
    const { ownership, schedule, discovery, arrivals, bodies, lanes, underFence } = this.#engine;
    this.#news = await listenForNews(
      this.#deps.direct,
      {
        onWork: (work) => arrivals.receive(work),
        onWebhook: (lane) => this.webhookChanged(lane),
        onEvents: this.eventsErased,
        onMissed: () => {
          for (const lane of lanes.all()) this.#engine.renew(lane);
          bodies.forgetAll();
          discovery.scanAll();
        },
      },
      this.#deps.settings.leaseMs,
    );
    ownership.start();
    schedule.start();
    discovery.start();
    underFence.tally.start();
  }

  /** Takes the deliveries that are ours; answers the others, whose owner must be told. */
  offer(deliveries: readonly HandedOver[]): Work[] {
    const { ownership, bodies, lanes } = this.#engine;
    const foreign: Work[] = [];
    const touched = new Set<Lane>();
    for (const { shard, delivery, event } of deliveries) {
      if (!ownership.owns(shard)) {
        foreign.push({ shard, webhookId: delivery.webhookId, deliveryId: delivery.id });
        continue;
      }
      const lane = lanes.get(shard, delivery.webhookId);
      if (lane.deliveries.acceptsOffers) bodies.put(event);
      lane.deliveries.offer(delivery);
      touched.add(lane);
    }
    this.#engine.send(touched);
    return foreign;
  }

  /** Drops what is known of the webhook: nothing is sent to it before its row was read again. */
  webhookChanged({ shard, webhookId }: LaneName): void {
    const { ownership, lanes } = this.#engine;
    // Also where nothing is in memory: if it was switched off, what it has that is not due yet is ended too.
    if (ownership.owns(shard)) this.#engine.renew(lanes.get(shard, webhookId));
  }

  /** Something of these events was erased: they are read again before they are sent. */
  readonly eventsErased = (ids: readonly number[]): void => this.#engine.bodies.forget(ids);

  /** The shards that this worker has at the moment: other work that is done once may be shared out by them too. */
  ownedShards(): number[] {
    return this.#engine.ownership.owned();
  }

  /** Looks for work in the table: after a COMMIT whose result is unknown. */
  rediscover(): void {
    this.#engine.discovery.scanAll();
  }

  /** Stops taking, finishes what is in flight within the time-out, records it, hands the shards back. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    const { clock, log } = this.#deps;
    const { exchangesMs, recordsMs, handBackMs } = this.#deps.settings.stopping;
    const { discovery, unfetched, schedule, arrivals, fetcher, dispatcher, connections, ownership, underFence } =
      this.#engine;
    const startedMs = clock.monotonicMs();
    ownership.takeNoMore();
    discovery.stop();
    unfetched.stop();
    arrivals.stop();
    schedule.stop();
    fetcher.stop();
    dispatcher.stop();
    let aborted = 0;
    const late = setTimeout(() => (aborted = this.#engine.abort(() => true)), exchangesMs);
    // With the database gone nothing can be recorded: what is not by then is sent again by the next owner.
    await within(exchangesMs + recordsMs, { stop: () => this.#finish() }).stop();
    clearTimeout(late);
    const unrecorded = underFence.recorder.unrecorded();
    await within(handBackMs, { stop: () => this.#handBack() }).stop();
    const tookMs = Math.round(clock.monotonicMs() - startedMs);
    // The first two are sent again by the next owner.
    log.info({ aborted, unrecorded, handedBack: ownership.handedBack, tookMs }, 'stopped delivering');
    await connections.stop();
  }

  async #handBack(): Promise<void> {
    const { ownership, underFence } = this.#engine;
    await Promise.all([this.#news?.stop(), ownership.stop(), underFence.tally.stop()]);
  }

  async #finish(): Promise<void> {
    const { dispatcher, underFence, settling } = this.#engine;
    while (dispatcher.slots.inFlight > 0 || underFence.recorder.unrecorded() > 0) await settling.next();
  }
}
