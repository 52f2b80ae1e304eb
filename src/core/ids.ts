/**
 * Ids that Halcyon allocates: positive safe integers whose low eight bits are the shard, so any URL identifies its shard
 * without a lookup. Ids of events, deliveries and attempts also contain their day: `(day·2³⁰ + n)·256 + shard`, so a day's
 * partition is a range of ids.
 */
export const SHARDS = 256;
/** Maximum number of ids per shard and day. */
export const NUMBERS_A_DAY = 2 ** 30;
const DAY_MS = 86_400_000;
const DAY_ZERO_MS = Date.UTC(2020, 0, 1);

/** Returns the shard (0–255) of an id. */
export function shardOf(id: number): number {
  return id % SHARDS;
}

/** A store, with the shard of its id. */
export type StoreKey = { shard: number; storeId: number };

/** Returns the number of whole days from 2020-01-01 UTC to the given time. */
export function dayOf(at: Date): number {
  return Math.floor((at.getTime() - DAY_ZERO_MS) / DAY_MS);
}

/** Returns the time at which a day begins (UTC). */
export function startOfDay(day: number): Date {
  return new Date(DAY_ZERO_MS + day * DAY_MS);
}

/** Returns the id of a sequence number and a shard. */
export function idOf(n: number, shard: number): number {
  return n * SHARDS + shard;
}

/** Returns the id of an event, delivery or attempt. Throws if `n` exceeds the range of a day. */
export function dailyIdOf(day: number, n: number, shard: number): number {
  if (n < 0 || n >= NUMBERS_A_DAY) throw new RangeError(`Number ${n} is outside the range of a day`);
  return (day * NUMBERS_A_DAY + n) * SHARDS + shard;
}

/** Returns the smallest id of a day: the lower bound of its partition. */
export function firstIdOfDay(day: number): number {
  return day * NUMBERS_A_DAY * SHARDS;
}

/** Returns the day in the id of an event, delivery or attempt. */
export function dayOfId(id: number): number {
  return Math.floor(id / (NUMBERS_A_DAY * SHARDS));
}

/** Parses an id from a URL; returns undefined unless the text is a positive safe integer in canonical form. */
export function parseId(text: string): number | undefined {
  if (!/^[1-9][0-9]{0,15}$/.test(text)) return undefined;
  const id = Number(text);
  return Number.isSafeInteger(id) ? id : undefined;
}
