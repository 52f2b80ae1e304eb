/** One timer for all lanes: who must be looked at when, in buckets of a second of wall-clock time. */
const BUCKET_MS = 1_000;

export class Wheel<T> {
  readonly #buckets = new Map<number, Set<T>>();
  /** No bucket is due before this. */
  #nextMs = Number.POSITIVE_INFINITY;

  add(item: T, atMs: number): void {
    if (!Number.isFinite(atMs)) return;
    const key = Math.ceil(atMs / BUCKET_MS);
    this.#nextMs = Math.min(this.#nextMs, key * BUCKET_MS);
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) this.#buckets.set(key, new Set([item]));
    else bucket.add(item);
  }

  /** Takes out everything that is due, whichever way the clock jumped. Walks the buckets only when one of them is. */
  due(nowMs: number): Set<T> {
    const items = new Set<T>();
    if (nowMs < this.#nextMs) return items;
    this.#nextMs = Number.POSITIVE_INFINITY;
    for (const [key, bucket] of this.#buckets) {
      if (key * BUCKET_MS > nowMs) {
        this.#nextMs = Math.min(this.#nextMs, key * BUCKET_MS);
        continue;
      }
      for (const item of bucket) items.add(item);
      this.#buckets.delete(key);
    }
    return items;
  }
}
