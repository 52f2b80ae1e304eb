/**
 * Deliveries that another process committed, and told of: read by their ids and taken as if they had been published here. One
 * read at a time, for whatever came meanwhile and whatever their shards: so they keep their order, and a thousand events a
 * second in as many lanes take 200 statements. By lanes, as it was first, each took two or three, and the latency was that of
 * a queue before them: p95 609 ms.
 */
import type { Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import type { Heard } from '../announce.ts';
import type { Bodies } from '../attempt/bodies.ts';
import type { Pending } from './loaded-deliveries.ts';
import type { Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';
import { loadArrivals, type Arrival } from './queue-sql.ts';

type Deps = {
  sql: Sql;
  log: Log;
  lanes: Lanes;
  bodies: Bodies;
  owns: (shard: number) => boolean;
  /** The lane needs its settings, and is about to have something to send. */
  requestFetch: (lane: Lane, isUrgent: true) => void;
  /** These may have something to send, or have to look into the table. */
  onArrived: (lanes: Iterable<Lane>) => void;
};

const BATCH_DELIVERIES = 500;
/** More than that is found in the table: words that are not read in time must not fill the memory. */
const WAITING_MAX = 5_000;
/** Longer texts are read when they are sent: 500 of a megabyte would be half a gigabyte. */
const BODY_MAX_BYTES = 32 * 1024;

type Announcement = { readonly lane: Lane; readonly id: number };

/** Without the event: its lane keeps it. */
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
  readonly #deps: Deps;
  #waiting: Announcement[] = [];
  #isReading = false;
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** What somebody else committed. Of what has no room nothing is read: it stays in the table until its lane fetches. */
  receive(work: readonly Heard[]): void {
    const { lanes, owns, requestFetch, onArrived } = this.#deps;
    const incomplete = new Set<Lane>();
    for (const { shard, webhookId, deliveryId } of work) {
      if (this.#isStopped || !owns(shard)) continue;
      const lane = lanes.get(shard, webhookId);
      if (deliveryId !== undefined && lane.deliveries.acceptsOffers && this.#waiting.length < WAITING_MAX) {
        this.#waiting.push({ lane, id: deliveryId });
        // Its settings are read meanwhile.
        if (lane.target === null) requestFetch(lane, true);
      } else {
        lane.deliveries.markIncomplete();
        incomplete.add(lane);
      }
    }
    onArrived(incomplete);
    if (!this.#isReading) void this.#readAll();
  }

  stop(): void {
    this.#isStopped = true;
    this.#waiting = [];
  }

  async #readAll(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.length > 0) {
      const announcements = this.#waiting.splice(0, BATCH_DELIVERIES);
      this.#deps.onArrived(await this.#read(announcements));
    }
    this.#isReading = false;
  }

  async #read(announcements: readonly Announcement[]): Promise<Set<Lane>> {
    const { sql, bodies, log } = this.#deps;
    const fetches = announcements.map(({ lane }) => lane.deliveries.fetches);
    const readAt = bodies.readAt;
    const touched = new Set<Lane>();
    const shards = announcements.map(({ lane }) => lane.shard);
    const ids = announcements.map(({ id }) => id);
    const rows = await loadArrivals(sql, shards, ids, BODY_MAX_BYTES).catch((error: unknown) => {
      log.warn({ reason: String(error) }, 'deliveries could not be read; their lanes look for them');
      return undefined;
    });
    const byId = new Map(rows?.map((row) => [row.id, row]));
    for (const row of rows ?? []) this.#cacheBody(row, readAt);
    for (const [index, { lane, id }] of announcements.entries()) {
      const current = this.#currentOf(lane);
      if (current === undefined) continue;
      touched.add(current);
      // What a fetch found meanwhile may be sent and recorded by now: what was read before that must not be sent again.
      const isFresh = current === lane && lane.deliveries.fetches === fetches[index];
      const row = byId.get(id);
      if (rows === undefined || !isFresh) current.deliveries.markIncomplete();
      else if (row !== undefined) this.#offer(current, row);
    }
    return touched;
  }

  /** The lane as it is now: the shard may have been lost, and the lane forgotten. */
  #currentOf({ shard, webhookId }: Lane): Lane | undefined {
    const { owns, lanes } = this.#deps;
    return owns(shard) && !this.#isStopped ? lanes.get(shard, webhookId) : undefined;
  }

  #cacheBody({ eventId, body, ...row }: Arrival, readAt: number): void {
    if (body === null) return;
    const { storeId, type, resourceId, action, version, nonce, baseUrl } = row;
    const event = { id: eventId, storeId, type, resourceId, action, version, nonce, baseUrl, body };
    this.#deps.bodies.put(event, readAt);
  }

  /** What was tried already has its time. By the clock of whoever published it, a first attempt may be due in a moment. */
  #offer({ deliveries }: Lane, row: Arrival): void {
    if (row.attempts > 0 || row.faults > 0) deliveries.markIncomplete();
    else deliveries.offer(deliveryOf(row));
  }
}
