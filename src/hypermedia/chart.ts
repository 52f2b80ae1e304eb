/** Numbers for the pages to draw: formats for programs have them as they are and are not asked for a chart. */

/** Day by day, of one currency alone, since two cannot share an axis. */
export type Curve = {
  title: string;
  /** ISO 4217, of all values. */
  currency: string;
  /** In the order of their days; `day` is `YYYY-MM-DD`. */
  points: readonly { day: string; value: number }[];
};

/** What a chart over hours is called, what it says in a sentence, and when each hour began (`14:00 UTC+2`), oldest first. */
type Hourly = { title: string; summary: string; hours: readonly string[] };

/** A count for each hour. */
type Counted = { name: string; counts: readonly number[] };

/** How many there were in each hour: what went well, and on top of it what did not. */
export type Bars = Hourly & { good: Counted; bad: Counted };

/** Null where there is nothing to tell. */
export type Measured = { name: string; values: readonly (number | null)[] };

/** Two measures of the same, in one unit: the one that is looked at first, and one that goes along with it. */
export type Lines = Hourly & { unit: string; main: Measured; beside: Measured };

/** `note`: a sentence on what is not drawn, where that is so. */
export type Charts = {
  curves?: readonly Curve[];
  bars?: readonly Bars[];
  lines?: readonly Lines[];
  note?: string;
};
