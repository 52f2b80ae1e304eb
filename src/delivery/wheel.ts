/** One timer for all lanes: who must be looked at when, in buckets of a second of wall-clock time. */
const BUCKET_MS = 1_000;

export class Wheel<T> {
  readonly #buckets = new Map<number, Set<T>>();

  add(item: T, atMs: number): void {
    if (!Number.isFinite(atMs)) return;
    const key = Math.ceil(atMs / BUCKET_MS);
    const bucket = this.#buckets.get(key);
    if (bucket === undefined) this.#buckets.set(key, new Set([item]));
    else bucket.add(item);
  }

  /** Takes out everything that is due. Buckets are few (one a second of the longest gap), so a jump of the clock is no case. */
  due(nowMs: number): Set<T> {
    const items = new Set<T>();
    for (const [key, bucket] of this.#buckets) {
      if (key * BUCKET_MS > nowMs) continue;
      for (const item of bucket) items.add(item);
      this.#buckets.delete(key);
    }
    return items;
  }
}
