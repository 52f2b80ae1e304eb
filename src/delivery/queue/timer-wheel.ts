/**
 * A timer wheel: a circular list of time slots of equal length. Items further ahead than one revolution stay in their
 * slot for several revolutions, so `add` is O(1) and `takeDue` costs only the slots that passed. Buckets in a map were
 * all visited whenever one was due: 180,000 for an hour of 20 ms.
 */
export class TimerWheel<T> {
  readonly #slotMs: number;
  /** Per slot, its items with the absolute slot number in which they are due. */
  #slots: (Map<T, number> | undefined)[];
  /** The absolute number of the last processed slot. */
  #currentSlot: number;

  constructor({ slotMs, slots, nowMs }: { slotMs: number; slots: number; nowMs: number }) {
    this.#slotMs = slotMs;
    this.#slots = Array.from({ length: slots });
    this.#currentSlot = Math.floor(nowMs / slotMs);
  }

  /**
   * Schedules the item for the first slot that begins at or after `atMs`, never before. Added twice, it is due at the
   * earlier time.
   */
  add(item: T, atMs: number): void {
    this.#put(item, Math.ceil(atMs / this.#slotMs));
  }

  /** Removes and returns all due items. A clock that jumped ahead is followed, one that jumped back is waited for. */
  takeDue(nowMs: number): T[] {
    const now = Math.floor(nowMs / this.#slotMs);
    if (now < this.#currentSlot) this.#rewind(now);
    const passed = Math.min(now - this.#currentSlot, this.#slots.length);
    const items: T[] = [];
    for (let slot = now - passed + 1; slot <= now; slot += 1) this.#takeFrom(slot % this.#slots.length, now, items);
    this.#currentSlot = now;
    return items;
  }

  /** Removes items that need not wait any more. */
  prune(shouldRemove: (item: T) => boolean): void {
    for (const items of this.#slots)
      for (const item of items?.keys() ?? []) if (shouldRemove(item)) items?.delete(item);
  }

  /** Returns when an item may be due within the next `slots` slots; infinite if there is none. */
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

  /** Reinserts all items after the clock was set back. */
  #rewind(now: number): void {
    const before = this.#slots;
    this.#slots = Array.from({ length: before.length });
    this.#currentSlot = now;
    for (const items of before) for (const [item, slot] of items ?? []) this.#put(item, slot);
  }
}
