/**
 * A timing wheel: who must be looked at when. Slots of equal length stand in a circle; what is further away than one turn
 * stays in its slot for as many turns. So to add costs the same however many wait, and to look costs the slots that passed.
 * Buckets in a map, as they were first, were all walked whenever one was due: 180,000 for an hour of 20 ms.
 */
export class TimerWheel<T> {
  readonly #slotMs: number;
  /** In each the items with the slot they are due in, counted from the beginning of time. */
  #slots: (Map<T, number> | undefined)[];
  /** The slot that was looked at last. */
  #currentSlot: number;

  constructor({ slotMs, slots, nowMs }: { slotMs: number; slots: number; nowMs: number }) {
    this.#slotMs = slotMs;
    this.#slots = Array.from({ length: slots });
    this.#currentSlot = Math.floor(nowMs / slotMs);
  }

  /** Due with the first slot that begins at `atMs` or after it: never before. Added twice, it is due at the earlier time. */
  add(item: T, atMs: number): void {
    this.#put(item, Math.ceil(atMs / this.#slotMs));
  }

  /** Takes out everything that is due. A clock that jumped ahead is followed, one that jumped back is waited for. */
  takeDue(nowMs: number): T[] {
    const now = Math.floor(nowMs / this.#slotMs);
    if (now < this.#currentSlot) this.#rewind(now);
    const passed = Math.min(now - this.#currentSlot, this.#slots.length);
    const items: T[] = [];
    for (let slot = now - passed + 1; slot <= now; slot += 1) this.#takeFrom(slot % this.#slots.length, now, items);
    this.#currentSlot = now;
    return items;
  }

  /** Lets go of what nobody waits for any more. */
  prune(shouldRemove: (item: T) => boolean): void {
    for (const items of this.#slots)
      for (const item of items?.keys() ?? []) if (shouldRemove(item)) items?.delete(item);
  }

  /** When something may be due within the next so many slots; infinite where nothing is. */
  nextDueMs(slots: number): number {
    for (let slot = this.#currentSlot + 1; slot <= this.#currentSlot + slots; slot += 1) {
      if (this.#slots[slot % this.#slots.length] !== undefined) return slot * this.#slotMs;
    }
    return Number.POSITIVE_INFINITY;
  }

  #put(item: T, slot: number): void {
    const index = Math.max(slot, this.#currentSlot + 1) % this.#slots.length;
    const items = (this.#slots[index] ??= new Map<T, number>());
    items.set(item, Math.min(items.get(item) ?? slot, slot));
  }

  #takeFrom(index: number, now: number, items: T[]): void {
    const waiting = this.#slots[index];
    if (waiting === undefined) return;
    for (const [item, slot] of waiting) {
      if (slot > now) continue;
      items.push(item);
      waiting.delete(item);
    }
    if (waiting.size === 0) this.#slots[index] = undefined;
  }

  /** What stands a turn too far on from here is put where it belongs. */
  #rewind(now: number): void {
    const before = this.#slots;
    this.#slots = Array.from({ length: before.length });
    this.#currentSlot = now;
    for (const items of before) for (const [item, slot] of items ?? []) this.#put(item, slot);
  }
}
