/**
 * Deliveries that another process committed, and told of: read by their ids and taken as if they had been published here. One
 * read at a time, for whatever came meanwhile and whatever their shards: so they keep their order, and a thousand events a
 * second in as many lanes take 200 statements. By lanes, as it was first, each took two or three, and the latency was that of
 * a queue before them: p95 609 ms.
 */
import type { Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import type { AnnouncedWork } from '../announce.ts';
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
  want: (lane: Lane, isUrgent: true) => void;
  /** These may have something to send, or have to look into the table. */
  onArrived: (lanes: Iterable<Lane>) => void;
};

const DELIVERIES_AT_ONCE = 500;
/** More than that is found in the table: words that are not read in time must not fill the memory. */
const WAITING_MAX = 5_000;
/** Longer texts are read when they are sent: 500 of a megabyte would be half a gigabyte. */
const BODY_MAX_BYTES = 32 * 1024;

type Word = { readonly lane: Lane; readonly id: number };

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
  #waiting: Word[] = [];
  #isReading = false;
  #isStopped = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** What somebody else committed. Of what has no room nothing is read: it stays in the table until its lane fetches. */
  heard(work: readonly AnnouncedWork[]): void {
    const { lanes, owns, want, onArrived } = this.#deps;
    const behind = new Set<Lane>();
    for (const { shard, webhookId, deliveryId } of work) {
      if (this.#isStopped || !owns(shard)) continue;
      const lane = lanes.get(shard, webhookId);
      if (deliveryId !== undefined && lane.holding.takesOffers && this.#waiting.length < WAITING_MAX) {
        this.#waiting.push({ lane, id: deliveryId });
        // Its settings are read meanwhile.
        if (lane.target === null) want(lane, true);
      } else {
        lane.holding.lookAgain();
        behind.add(lane);
      }
    }
    onArrived(behind);
    if (!this.#isReading) void this.#readOn();
  }

  stop(): void {
    this.#isStopped = true;
    this.#waiting = [];
  }

  async #readOn(): Promise<void> {
    this.#isReading = true;
    while (this.#waiting.length > 0) {
      const words = this.#waiting.splice(0, DELIVERIES_AT_ONCE);
      this.#deps.onArrived(await this.#read(words));
    }
    this.#isReading = false;
  }

  async #read(words: readonly Word[]): Promise<Set<Lane>> {
    const { sql, bodies, log } = this.#deps;
    const fetches = words.map(({ lane }) => lane.holding.fetches);
    const readAt = bodies.readAt;
    const touched = new Set<Lane>();
    const shards = words.map(({ lane }) => lane.shard);
    const ids = words.map(({ id }) => id);
    const rows = await loadArrivals(sql, shards, ids, BODY_MAX_BYTES).catch((error: unknown) => {
      log.warn({ reason: String(error) }, 'deliveries could not be read; their lanes look for them');
      return undefined;
    });
    const byId = new Map(rows?.map((row) => [row.id, row]));
    for (const row of rows ?? []) this.#keep(row, readAt);
    for (const [index, { lane, id }] of words.entries()) {
      const current = this.#currentOf(lane);
      if (current === undefined) continue;
      touched.add(current);
      // What a fetch found meanwhile may be sent and recorded by now: what was read before that must not be sent again.
      const isFresh = current === lane && lane.holding.fetches === fetches[index];
      const row = byId.get(id);
      if (rows === undefined || !isFresh) current.holding.lookAgain();
      else if (row !== undefined) this.#take(current, row);
    }
    return touched;
  }

  /** The lane as it is now: the shard may have been lost, and the lane forgotten. */
  #currentOf({ shard, webhookId }: Lane): Lane | undefined {
    const { owns, lanes } = this.#deps;
    return owns(shard) && !this.#isStopped ? lanes.get(shard, webhookId) : undefined;
  }

  #keep({ eventId, body, ...row }: Arrival, readAt: number): void {
    if (body === null) return;
    const { storeId, type, resourceId, action, version, nonce, baseUrl } = row;
    const event = { id: eventId, storeId, type, resourceId, action, version, nonce, baseUrl, body };
    this.#deps.bodies.put(event, readAt);
  }

  /** What was tried already has its time. By the clock of whoever published it, a first attempt may be due in a moment. */
  #take({ holding }: Lane, row: Arrival): void {
    if (row.attempts > 0 || row.faults > 0) holding.lookAgain();
    else holding.offer(deliveryOf(row));
  }
}
