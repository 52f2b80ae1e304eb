/**
 * Deliveries that may kill who sends them (a crash in native code, memory, an endless loop). In a shard whose owners die one
 * after the other what is being sent is noted before; what is noted when an owner died was in flight, and the take-over
 * counts it (`takeShards`). Such ones are sent in a cell, and at last put aside. docs/delivery-states.md tells the whole.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { createBatcher, type Batcher } from '#db/batch.ts';
import type { Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from '../queue/lane.ts';
import type { Pending } from '../queue/loaded-deliveries.ts';
import { Cell, PUT_ASIDE_AT_DEATHS } from './isolation-slot.ts';
import { insertNotes, loadNotes, type Note, type Noted } from './quarantine-sql.ts';

/** From so many deaths of owners in a row on. One may be anybody's: a machine that was switched off, memory run out. */
const CAREFUL_FROM_DEATHS = 2;
const RETRY_MS = 250;
const BATCH_ROWS = 500;

type Deps = {
  sql: Sql;
  log: Log;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
  /** How many owners in a row died holding the shard. */
  deathsOf: (shard: number) => number;
  onLost: (shard: number, fence: number) => void;
  /** What is known of these shards is here: they may be sent for. */
  onReady: (shards: number[]) => void;
  /** Something is in the queue of the lane again. */
  onReturned: (lane: Lane) => void;
};

export class Suspects {
  readonly #deps: Deps;
  /** By shard and delivery what is noted; a shard is in here once its notes were read. */
  readonly #noted = new Map<number, Map<number, { deaths: number; fence: number }>>();
  readonly #cell = new Cell();
  #waiting: { lane: Lane; delivery: Pending }[] = [];
  readonly #notes: Batcher<Note, boolean>;

  constructor(deps: Deps) {
    this.#deps = deps;
    this.#notes = createBatcher<Note, boolean>({
      maxRows: BATCH_ROWS,
      maxBytes: Number.POSITIVE_INFINITY,
      sizeOf: () => ({ rows: 1, bytes: 0 }),
      run: (notes) => this.#write(notes),
    });
  }

  /** Reads what is noted of the shards; nothing may be sent for them before. */
  gained(shards: readonly number[]): void {
    void this.#load(shards);
  }

  lost(shards: readonly number[]): void {
    for (const shard of shards) this.#noted.delete(shard);
    this.#waiting = this.#waiting.filter(({ lane }) => !lane.isClosed);
  }

  isReady(shard: number): boolean {
    return this.#noted.has(shard);
  }

  isNoted(shard: number, deliveryId: number): boolean {
    return this.#noted.get(shard)?.has(deliveryId) === true;
  }

  /** The delivery that is to be sent, or is being sent, while nothing else is under way; it must wait until that is so. */
  get alone(): number | undefined {
    return this.#cell.alone;
  }

  /** How many are held back, so that those in the cell are alone. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Whether the delivery that was taken from its lane may be sent now; undefined: it never may again. One that may not waits
   * in here, and comes back to the front of its lane when somebody leaves the cell.
   */
  admit(lane: Lane, delivery: Pending): boolean | undefined {
    const deaths = this.#noted.get(lane.shard)?.get(delivery.id)?.deaths ?? 0;
    if (deaths === 0) return true;
    if (deaths >= PUT_ASIDE_AT_DEATHS) return undefined;
    if (this.#cell.enter(delivery.id, deaths)) return true;
    lane.attemptEnded();
    this.#waiting.push({ lane, delivery });
    return false;
  }

  /** Whether it has to be noted before it is sent: where owners die, and whatever is suspected anyway. */
  mustNote(shard: number, deliveryId: number): boolean {
    return this.#deps.deathsOf(shard) >= CAREFUL_FROM_DEATHS || this.isNoted(shard, deliveryId);
  }

  /**
   * Notes that it is about to be sent by us: without that the next death would count for what waits its turn, too. False
   * where it must not be sent, because the shard is not ours any more.
   */
  async note(shard: number, deliveryId: number): Promise<boolean> {
    const fence = this.#deps.fenceOf(shard);
    const known = this.#noted.get(shard)?.get(deliveryId);
    if (fence === undefined || known?.fence === fence) return fence !== undefined;
    const isHeld = await this.#notes.submit({ shard, deliveryId });
    if (isHeld) this.#noted.get(shard)?.set(deliveryId, { deaths: known?.deaths ?? 0, fence });
    return isHeld;
  }

  /**
   * It was recorded, or not sent at all. Not sooner: as long as its note stands, the death that the next one brings would be
   * counted as its own.
   */
  left(deliveryId: number): void {
    if (this.#cell.leave(deliveryId)) this.release(() => true);
  }

  /** Its end is recorded, and its note removed with it. */
  settled(shard: number, deliveryId: number): void {
    this.#noted.get(shard)?.delete(deliveryId);
  }

  /**
   * Gives what waits back to its lanes. All of it, whatever has room: a lane may be paused by now, and who was let in for it
   * would keep the others waiting. They are few, and wait in here again.
   */
  release(belongs: (lane: Lane) => boolean): void {
    const all = this.#waiting;
    this.#waiting = all.filter(({ lane }) => !belongs(lane));
    const returned = all.filter(({ lane }) => belongs(lane) && !lane.isClosed);
    // From behind, so that who came first is first in the queue.
    for (const { lane, delivery } of returned.toReversed()) lane.requeue(delivery);
    for (const lane of new Set(returned.map(({ lane: one }) => one))) this.#deps.onReturned(lane);
  }

  async #load(shards: readonly number[]): Promise<void> {
    const { sql, log, fenceOf, onReady } = this.#deps;
    for (;;) {
      const fences = new Map(shards.map((shard) => [shard, fenceOf(shard)]));
      const held = shards.filter((shard) => fences.get(shard) !== undefined);
      if (held.length === 0) return;
      try {
        const rows = await loadNotes(sql, held);
        // One that was lost and taken again meanwhile has a look of its own under way.
        const still = held.filter((shard) => fenceOf(shard) === fences.get(shard));
        const noted = Map.groupBy(rows, ({ shard }: Noted) => shard);
        for (const shard of still)
          this.#noted.set(shard, new Map((noted.get(shard) ?? []).map((note) => [note.deliveryId, note])));
        this.#tell(rows.filter(({ shard }) => still.includes(shard)));
        onReady(still);
        return;
      } catch (error) {
        log.warn({ reason: String(error) }, 'it could not be read what may kill; trying again');
        await wait(RETRY_MS);
      }
    }
  }

  #tell(noted: readonly Noted[]): void {
    const guilty = noted.filter(({ deaths }) => deaths > 0).map(({ deliveryId, deaths }) => ({ deliveryId, deaths }));
    if (guilty.length === 0) return;
    const worst = Math.max(...guilty.map(({ deaths }) => deaths));
    this.#deps.log.warn({ deliveries: guilty.length, worst }, 'in flight when workers died: sent with care');
  }

  async #write(notes: readonly Note[]): Promise<boolean[]> {
    const { sql, workerId, fenceOf, onLost } = this.#deps;
    const shards = [...new Set(notes.map(({ shard }) => shard))].toSorted((a, b) => a - b);
    const fences = shards.flatMap((shard) => {
      const fence = fenceOf(shard);
      return fence === undefined ? [] : [{ shard, fence }];
    });
    const columns = { shard: fences.map(({ shard }) => shard), fence: fences.map(({ fence }) => fence) };
    const held = new Set(fences.length === 0 ? [] : await insertNotes(sql, workerId, columns, notes));
    for (const { shard, fence } of fences) if (!held.has(shard)) onLost(shard, fence);
    return notes.map(({ shard }) => held.has(shard));
  }
}
