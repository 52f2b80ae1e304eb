/**
 * A queue of any length whose ends cost the same. An array's `shift` moves everything once it has some 50,000 items, and the
 * first of a Set is behind all that were taken out of it.
 */
const COMPACT_AFTER = 1_024;

export class Fifo<T> {
  /** Put in front, the next one last. */
  #front: T[] = [];
  #items: T[] = [];
  /** Where the rest of `#items` begins. */
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

  /** Puts it in front of all others. */
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

  /** Lets go of what nobody waits for any more. */
  prune(shouldRemove: (item: T) => boolean): void {
    this.#front = this.#front.filter((item) => !shouldRemove(item));
    this.#items = this.#items.slice(this.#from).filter((item) => !shouldRemove(item));
    this.#from = 0;
  }
}
