/** A kind of expired rows: each module defines how its own are deleted, `server/retention.ts` when. */
export type Purge = {
  /** Name of the rows, in the plural: the label of their counter. */
  name: string;
  /** Deletes at most `limit` of them, found by an index, and skips locked rows; returns the number deleted. */
  purge: (limit: number, now: Date) => Promise<number>;
};
