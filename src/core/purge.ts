/** Rows of one kind that have had their time: each room says how its own are deleted, housekeeping.ts when. */
export type Purge = {
  /** What they are, in the plural: the label of their counter. */
  name: string;
  /** Deletes at most `limit` of them, by an index, and leaves for the next time a row that somebody holds; answers how many it were. */
  purge: (limit: number, now: Date) => Promise<number>;
};
