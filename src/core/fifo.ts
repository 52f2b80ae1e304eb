/**
 * A FIFO queue of any length with O(1) operations at both ends. `Array.shift` moves all items above about 50,000, and
 * the first item of a Set lies behind all deleted ones.
 */
const COMPACT_AFTER = 1_024;

export class Fifo<T> {
  /** Items put in front, the next one last. */
  #front: T[] = [];
  #items: T[] = [];
  /** Index of the first remaining item of `#items`. */
  #from = 0;

  get size(): number {
    return this.#front.length + this.#items.length - this.#from;
  }

  peek(): T | undefined {
    return this.#front.at(-1) ?? this.#items[this.#from];
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Inserts the item before all others. */
  unshift(item: T): void {
    this.#front.push(item);
  }

  shift(): T | undefined {
    const first = this.#front.pop();
    if (first !== undefined || this.#from === this.#items.length) return first;
    const item = this.#items[this.#from];
    this.#from += 1;
    if (this.#from === this.#items.length || (this.#from >= COMPACT_AFTER && this.#from * 2 > this.#items.length)) {
      this.#items = this.#items.slice(this.#from);
      this.#from = 0;
    }
    return item;
  }

  /** Removes items that need not wait any more. */
  prune(shouldRemove: (item: T) => boolean): void {
    this.#front = this.#front.filter((item) => !shouldRemove(item));
    this.#items = this.#items.slice(this.#from).filter((item) => !shouldRemove(item));
    this.#from = 0;
  }
}
