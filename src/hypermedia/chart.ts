/** Data of charts, which only pages show; programs read the numbers in the document. */

/** Amounts per day in one currency, since two currencies cannot share an axis. */
export type Curve = {
  title: string;
  /** ISO 4217 code of all values. */
  currency: string;
  /** In ascending order; `day` is `YYYY-MM-DD`. */
  points: readonly { day: string; value: number }[];
};

/**
 * A chart of hours or longer spans: title, summary in one sentence, and the start of each (`14:00 UTC+2`, `1 Jul 14:00 UTC+2`), oldest
 * first.
 */
type Hourly = { title: string; summary: string; hours: readonly string[] };

/** A count per hour. */
type Counted = { name: string; counts: readonly number[] };

/** Stacked bars per hour: successes below, failures on top. */
export type Bars = Hourly & { good: Counted; bad: Counted };

/** A value per hour; null without data. */
export type Measured = { name: string; values: readonly (number | null)[] };

/** Two series in one unit: the main one and one for comparison. */
export type Lines = Hourly & { unit: string; main: Measured; beside: Measured };

/** `note`: a sentence about data that is not shown. */
export type Charts = {
  curves?: readonly Curve[];
  bars?: readonly Bars[];
  lines?: readonly Lines[];
  note?: string;
};
