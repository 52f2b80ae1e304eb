/**
 * Ids that Halcyon mints: positive safe integers whose low eight bits are the shard, so any URL finds its shard
 * without a look-up. Ids of events, deliveries and attempts also carry their day: `(day·2³⁰ + n)·256 + shard`,
 * so a day's partition is a range of the id.
 */
export const SHARDS = 256;
/** Ids that a shard can have of each day. */
export const NUMBERS_A_DAY = 2 ** 30;
const DAY_MS = 86_400_000;
const DAY_ZERO_MS = Date.UTC(2020, 0, 1);

/** The shard (0–255) an id lives in. */
export const shardOf = (id: number): number => id % SHARDS;

/** Whole days from 2020-01-01 UTC to the given time. */
export const dayOf = (at: Date): number => Math.floor((at.getTime() - DAY_ZERO_MS) / DAY_MS);

/** The time at which a day begins (UTC). */
export const startOfDay = (day: number): Date => new Date(DAY_ZERO_MS + day * DAY_MS);

/** The id made of a sequence number and a shard. */
export const idOf = (n: number, shard: number): number => n * SHARDS + shard;

/** Returns the id of an event, delivery or attempt. Throws where the day has no such number. */
export const dailyIdOf = (day: number, n: number, shard: number): number => {
  if (n < 0 || n >= NUMBERS_A_DAY) throw new RangeError(`A day has no number ${n}`);
  return (day * NUMBERS_A_DAY + n) * SHARDS + shard;
};

/** The smallest id of a day: the lower bound of its partition. */
export const firstIdOfDay = (day: number): number => day * NUMBERS_A_DAY * SHARDS;

/** The day an event's, delivery's or attempt's id carries. */
export const dayOfId = (id: number): number => Math.floor(id / (NUMBERS_A_DAY * SHARDS));

/** Reads an id from a URL: undefined where the text is not a positive safe integer in its one spelling. */
export const parseId = (text: string): number | undefined => {
  if (!/^[1-9][0-9]{0,15}$/.test(text)) return undefined;
  const id = Number(text);
  return Number.isSafeInteger(id) ? id : undefined;
};
