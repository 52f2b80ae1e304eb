/**
 * Numbers day by day, for the pages to draw: formats for programs have them as they are and are not asked for a curve. Of one
 * currency alone, since two cannot share an axis.
 */
export type Chart = {
  title: string;
  /** ISO 4217, of all values. */
  currency: string;
  /** In the order of their days; `day` is `YYYY-MM-DD`. */
  points: readonly { day: string; value: number }[];
};

/** `note`: a sentence on what is not drawn, where that is so. */
export type Charts = { curves: readonly Chart[]; note?: string };
