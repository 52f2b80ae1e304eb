/**
 * Loads deliveries that other processes announced by NOTIFY, by id, and offers them to their lanes. One statement at a
 * time loads all announcements that arrived meanwhile, which keeps their order: 1,000 events per second in as many
 * lanes take 200 statements. One statement per lane took two or three each, with a p95 latency of 609 ms.
 */
import type { Runtime } from '#runtime/runtime.ts';
import type { AnnouncedWork } from '../announce.ts';
import type { Bodies } from '../attempt/bodies.ts';
import type { Ownership } from '../leases/ownership.ts';
import type { Pending } from '../policy/entry.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { Lane } from './lane.ts';
import type { FetchRequests, Lanes } from './lanes.ts';
import { loadArrivals, type Arrival } from './queue-sql.ts';

type ArrivalRuntime = Pick<Runtime, 'sql' | 'clock' | 'log'>;

type ArrivalParts = {
  ownership: Pick<Ownership, 'owns'>;
  lanes: Lanes;
  bodies: Bodies;
  requests: Pick<FetchRequests, 'add'>;
  dispatcher: Pick<Dispatcher, 'send'>;
};

const BATCH_DELIVERIES = 500;
/** Further announcements only mark their lane as incomplete, so that a slow database cannot fill the memory. */
const WAITING_MAX = 5_000;
/** Longer bodies are loaded when they are sent: 500 bodies of 1 MB would be 500 MB. */
const BODY_MAX_BYTES = 32 * 1024;

/** `isRequested`: an attempt was requested, so the delivery is sent next. `reads`: how often its row was read. */
type Announcement = { readonly lane: Lane; readonly id: number; readonly isRequested: boolean; readonly reads: number };

/** A lane whose fetches always end while the row is read sends the delivery when it is due. */
const READS_MAX = 3;

/** Returns the delivery without the columns of its event. */
const deliveryOf = ({ id, storeId, webhookId, epoch, eventId, attempts, faults, dueAt }: Arrival): Pending => ({
  id,
  storeId,
  webhookId,
  epoch,
  eventId,
  attempts,
  faults,
  dueAt,
});

export class Arrivals {
  readonly #runtime: ArrivalRuntime;
  readonly #parts: ArrivalParts;
  #waiting: Announcement[] = [];
  #isReading = false;
  #isStopped = false;

  constructor(runtime: ArrivalRuntime, parts: ArrivalParts) {
    this.#runtime = runtime;
    this.#parts = parts;
  }

  /**
   * Queues announced deliveries for loading. A lane that does not accept offers is marked as incomplete instead: its
   * deliveries stay in the table until it fetches them.
   */
  receive(announced: readonly AnnouncedWork[]): void {
    const { lanes, ownership, requests, dispatcher } = this.#parts;
    const incomplete = new Set<Lane>();
    for (const { shard, webhookId, deliveryId } of announced) {
      if (this.#isStopped || !ownership.owns(shard)) continue;
      const lane = lanes.get(shard, webhookId);
      if (deliveryId !== undefined && lane.deliveries.acceptsOffers && this.#waiting.length < WAITING_MAX) {
        this.#waiting.push({ lane, id: deliveryId, isRequested: false, reads: 0 });
        // The settings of the lane are loaded at the same time.
        if (lane.target === null) requests.add(lane, true);
      } else {
        lane.deliveries.markIncomplete();
        incomplete.add(lane);
      }
    }
    dispatcher.send(incomplete);
    if (!this.#isReading) void this.#readAll();
  }

  /**
   * Starts requested attempts as soon as the limits of the webhook allow, despite a pause or an open breaker: of one delivery, which
   * is sent next whenever it is due, or, without an id, of all that are due now.
   */
  retry(asked: readonly AnnouncedWork[]): void {
    const { lanes, ownership, requests } = this.#parts;
    const incomplete: AnnouncedWork[] = [];
    for (const { shard, webhookId, deliveryId } of asked) {
      if (this.#isStopped || !ownership.owns(shard)) continue;
      const lane = lanes.get(shard, webhookId);
      if (deliveryId === undefined || this.#waiting.length >= WAITING_MAX) {
        lane.startConditions.attemptNow(this.#runtime.clock.monotonicMs());
        incomplete.push({ shard, webhookId, deliveryId: undefined });
      } else {
        this.#waiting.push({ lane, id: deliveryId, isRequested: true, reads: 0 });
        if (lane.target === null) requests.add(lane, true);
      }
    }
    this.receive(incomplete);
  }

  stop(): void {
    this.#isStopped = true;
    this.#waiting = [];
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.length > 0) {
      const announcements = this.#waiting.splice(0, BATCH_DELIVERIES);
      this.#parts.dispatcher.send(await this.#read(announcements));
    }
    this.#isReading = false;
  }

  async #read(announcements: readonly Announcement[]): Promise<Set<Lane>> {
    const { sql, log } = this.#runtime;
    const { bodies } = this.#parts;
    const fetches = announcements.map(({ lane }) => lane.deliveries.fetches);
    const wereKnown = announcements.map(({ lane, id }) => lane.deliveries.has(id));
    const readAt = bodies.readAt;
    const touched = new Set<Lane>();
    const shards = announcements.map(({ lane }) => lane.shard);
    const ids = announcements.map(({ id }) => id);
    const rows = await loadArrivals(sql, shards, ids, BODY_MAX_BYTES).catch((error: unknown) => {
      log.warn({ reason: String(error) }, 'announced deliveries could not be loaded; their lanes fetch them');
      return undefined;
    });
    const byId = new Map(rows?.map((row) => [row.id, row]));
    for (const row of rows ?? []) this.#cacheBody(row, readAt);
    for (const [index, announcement] of announcements.entries()) {
      const { lane, id, isRequested, reads } = announcement;
      const current = this.#currentOf(lane);
      if (current === undefined) continue;
      touched.add(current);
      // A fetch that ended meanwhile may have loaded the delivery, and it may already be sent and recorded.
      const isFresh = current === lane && lane.deliveries.fetches === fetches[index];
      const row = byId.get(id);
      if (isRequested && row !== undefined) {
        if (isFresh || current.deliveries.has(id)) this.#sendNext(current, row, wereKnown[index] === true);
        else if (reads < READS_MAX) this.#waiting.push({ ...announcement, lane: current, reads: reads + 1 });
        else current.deliveries.markIncomplete();
      } else if (rows === undefined || !isFresh) current.deliveries.markIncomplete();
      else if (row !== undefined) this.#offer(current, row);
    }
    return touched;
  }

  /** Returns the current lane of the webhook: the shard may have been lost, or the lane removed and created again. */
  #currentOf({ shard, webhookId }: Lane): Lane | undefined {
    const { ownership, lanes } = this.#parts;
    return ownership.owns(shard) && !this.#isStopped ? lanes.get(shard, webhookId) : undefined;
  }

  #cacheBody(row: Arrival, readAt: number): void {
    if (row.body === null) return;
    const { eventId, storeId, type, resourceId, action, version, nonce, baseUrl, dateCreated, body, traceContext } =
      row;
    const event = {
      id: eventId,
      storeId,
      type,
      resourceId,
      action,
      version,
      nonce,
      baseUrl,
      dateCreated,
      body,
      traceContext,
    };
    this.#parts.bodies.put(event, readAt);
  }

  /**
   * Puts a requested delivery first and allows a probe at once. One that was in memory before its row was read may have been
   * attempted meanwhile, so the row may be outdated.
   */
  #sendNext({ deliveries, startConditions }: Lane, row: Arrival, wasKnown: boolean): void {
    if (wasKnown && !deliveries.has(row.id)) return;
    const { clock } = this.#runtime;
    deliveries.putFirst({ ...deliveryOf(row), dueAt: new Date(Math.min(row.dueAt.getTime(), clock.now().getTime())) });
    startConditions.attemptNow(clock.monotonicMs());
  }

  /**
   * Offers a first attempt as due: the publisher's clock may be slightly ahead. A retry keeps its due time, so the lane
   * fetches it.
   */
  #offer({ deliveries }: Lane, row: Arrival): void {
    if (row.attempts > 0 || row.faults > 0) deliveries.markIncomplete();
    else deliveries.offer(deliveryOf(row));
  }
}
