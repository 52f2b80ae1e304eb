/**
 * Deliveries that may kill who sends them (a crash in native code, memory, an endless loop). In a shard whose owners die one
 * after the other what is being sent is markers before; what is markers when an owner died was in flight, and the take-over
 * counts it (`takeShards`). Such ones are sent in a cell, and at last put aside. docs/delivery-states.md tells the whole.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher, type Batcher } from '#db/batch.ts';
import type { Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from '../queue/lane.ts';
import type { Pending } from '../queue/loaded-deliveries.ts';
import { IsolationSlot, DEAD_LETTER_AT_CRASHES } from './isolation-slot.ts';
import { insertMarkers, loadMarkers, type Marker, type StoredMarker } from './quarantine-sql.ts';

/** From so many crashCount of owners in a row on. One may be anybody's: a machine that was switched off, memory run out. */
const MARK_FROM_CRASHES = 2;
const RETRY_MS = 250;
const BATCH_ROWS = 500;

type Deps = {
  sql: Sql;
  log: Log;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  /** How many owners in a row died holding the shard. */
  crashCountOf: (shard: number) => number;
  onLost: (shard: number, fence: number) => void;
  /** What is known of these shards is here: they may be sent for. */
  onReady: (shards: number[]) => void;
  /** Something is in the queue of the lane again. */
  onReturned: (lane: Lane) => void;
};

export class Quarantine {
  readonly #deps: Deps;
  /** By shard and delivery what is markers; a shard is in here once its markers were read. */
  readonly #markers = new Map<number, Map<number, { crashCount: number; fence: number }>>();
  readonly #slot = new IsolationSlot();
  #waitingCount: { lane: Lane; delivery: Pending }[] = [];
  readonly #batcher: Batcher<Marker, boolean>;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#batcher = createBatcher<Marker, boolean>({
      maxRows: BATCH_ROWS,
      maxBytes: Number.POSITIVE_INFINITY,
      sizeOf: () => ({ rows: 1, bytes: 0 }),
      run: (markers) => this.#write(markers),
    });
  }

  /** Reads what is markers of the shards; nothing may be sent for them before. */
  gained(shards: readonly number[]): void {
    void this.#load(shards);
  }

  lost(shards: readonly number[]): void {
    for (const shard of shards) this.#markers.delete(shard);
    this.#waitingCount = this.#waitingCount.filter(({ lane }) => !lane.isClosed);
  }

  isReady(shard: number): boolean {
    return this.#markers.has(shard);
  }

  isMarked(shard: number, deliveryId: number): boolean {
    return this.#markers.get(shard)?.has(deliveryId) === true;
  }

  /** The delivery that is to be sent, or is being sent, while nothing else is under way; it must wait until that is so. */
  get exclusiveId(): number | undefined {
    return this.#slot.exclusiveId;
  }

  /** How many are owned back, so that those in the cell are alone. */
  get waitingCount(): number {
    return this.#waitingCount.length;
  }

  /**
   * Whether the delivery that was taken from its lane may be sent now; undefined: it never may again. One that may not waits
   * in here, and comes back to the front of its lane when somebody leaves the cell.
   */
  admit(lane: Lane, delivery: Pending): boolean | undefined {
    const crashCount = this.#markers.get(lane.shard)?.get(delivery.id)?.crashCount ?? 0;
    if (crashCount === 0) return true;
    if (crashCount >= DEAD_LETTER_AT_CRASHES) return undefined;
    if (this.#slot.enter(delivery.id, crashCount)) return true;
    lane.landed();
    this.#waitingCount.push({ lane, delivery });
    return false;
  }

  /** Whether it has to be markers before it is sent: where owners die, and whatever is suspected anyway. */
  mustMark(shard: number, deliveryId: number): boolean {
    return this.#deps.crashCountOf(shard) >= MARK_FROM_CRASHES || this.isMarked(shard, deliveryId);
  }

  /**
   * Notes that it is about to be sent by us: without that the next death would count for what waits its turn, too. False
   * where it must not be sent, because the shard is not ours any more.
   */
  async mark(shard: number, deliveryId: number): Promise<boolean> {
    const fence = this.#deps.fenceOf(shard);
    const known = this.#markers.get(shard)?.get(deliveryId);
    if (fence === undefined || known?.fence === fence) return fence !== undefined;
    const ownsShard = await this.#batcher.submit({ shard, deliveryId });
    if (ownsShard) this.#markers.get(shard)?.set(deliveryId, { crashCount: known?.crashCount ?? 0, fence });
    return ownsShard;
  }

  /**
   * It was recorded, or not sent at all. Not sooner: as long as its mark stands, the death that the next one brings would be
   * counted as its own.
   */
  leave(deliveryId: number): void {
    if (this.#slot.leave(deliveryId)) this.release(() => true);
  }

  /** Its end is recorded, and its mark removed with it. */
  unmark(shard: number, deliveryId: number): void {
    this.#markers.get(shard)?.delete(deliveryId);
  }

  /**
   * Gives what waits back to its lanes. All of it, whatever has room: a lane may be paused by now, and who was let in for it
   * would keep the others waitingCount. They are few, and wait in here again.
   */
  release(matches: (lane: Lane) => boolean): void {
    const all = this.#waitingCount;
    this.#waitingCount = all.filter(({ lane }) => !matches(lane));
    const returned = all.filter(({ lane }) => matches(lane) && !lane.isClosed);
    // From behind, so that who came first is first in the queue.
    for (const { lane, delivery } of returned.toReversed()) lane.requeue(delivery);
    for (const lane of new Set(returned.map(({ lane: one }) => one))) this.#deps.onReturned(lane);
  }

  async #load(shards: readonly number[]): Promise<void> {
    const { sql, log, fenceOf, onReady } = this.#deps;
    for (;;) {
      const fences = new Map(shards.map((shard) => [shard, fenceOf(shard)]));
      const owned = shards.filter((shard) => fences.get(shard) !== undefined);
      if (owned.length === 0) return;
      try {
        const rows = await loadMarkers(sql, owned);
        // One that was lost and taken again meanwhile has a look of its own under way.
        const stillOwned = owned.filter((shard) => fenceOf(shard) === fences.get(shard));
        const markers = Map.groupBy(rows, ({ shard }: StoredMarker) => shard);
        for (const shard of stillOwned)
          this.#markers.set(shard, new Map((markers.get(shard) ?? []).map((mark) => [mark.deliveryId, mark])));
        this.#logCrashed(rows.filter(({ shard }) => stillOwned.includes(shard)));
        onReady(stillOwned);
        return;
      } catch (error) {
        log.warn({ reason: String(error) }, 'it could not be read what may kill; trying again');
        await wait(RETRY_MS);
      }
    }
  }

  #logCrashed(markers: readonly StoredMarker[]): void {
    const crashed = markers
      .filter(({ crashCount }) => crashCount > 0)
      .map(({ deliveryId, crashCount }) => ({ deliveryId, crashCount }));
    if (crashed.length === 0) return;
    const worst = Math.max(...crashed.map(({ crashCount }) => crashCount));
    this.#deps.log.warn({ deliveries: crashed.length, worst }, 'in flight when workers died: sent with care');
  }

  async #write(markers: readonly Marker[]): Promise<boolean[]> {
    const { sql, workerId, fenceOf, onLost } = this.#deps;
    const shards = [...new Set(markers.map(({ shard }) => shard))].toSorted((a, b) => a - b);
    const fences = shards.flatMap((shard) => {
      const fence = fenceOf(shard);
      return fence === undefined ? [] : [{ shard, fence }];
    });
    const columns = { shard: fences.map(({ shard }) => shard), fence: fences.map(({ fence }) => fence) };
    const owned = new Set(fences.length === 0 ? [] : await insertMarkers(sql, workerId, columns, markers));
    for (const { shard, fence } of fences) if (!owned.has(shard)) onLost(shard, fence);
    return markers.map(({ shard }) => owned.has(shard));
  }
}
