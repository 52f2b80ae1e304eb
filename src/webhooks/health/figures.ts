/** Statistics from the hourly rows of webhooks, as pure functions. */
import { added, emptyHistogram, quantileOf, type Histogram, type Range } from '#core/histogram.ts';
import type { HourRow } from './health-sql.ts';

/** The current hour and the 23 before it. */
const HOURS_SHOWN = 24;
const HOUR_MS = 3_600_000;

/** Only outcomes with a response count for response times; other durations are zero or the timeout. */
const ANSWERED: ReadonlySet<string> = new Set(['delivered', 'refused', 'gone']);

export type AttemptCounts = { attempts: number; delivered: number; answered: Histogram };

/** `hour`: the last hour with this failure. */
export type Failure = { webhookId: number; outcome: string; attempts: number; hour: Date };

/** `hours`: oldest first; `at` is the beginning of each. */
export type Figures = AttemptCounts & {
  hours: readonly (AttemptCounts & { at: Date })[];
  failures: readonly Failure[];
};

/** Returns the beginning of the first shown hour. */
export function firstHourOf(now: Date): Date {
  return new Date((Math.floor(now.getTime() / HOUR_MS) - HOURS_SHOWN + 1) * HOUR_MS);
}

const emptyCounts = (): AttemptCounts => ({ attempts: 0, delivered: 0, answered: emptyHistogram() });

const addRow = ({ attempts, delivered, answered }: AttemptCounts, row: HourRow): AttemptCounts => ({
  attempts: attempts + row.attempts,
  delivered: delivered + (row.outcome === 'delivered' ? row.attempts : 0),
  answered: ANSWERED.has(row.outcome) ? added(answered, row.durations) : answered,
});

function failuresOf(rows: readonly HourRow[]): Failure[] {
  const failed = rows.filter(({ outcome }) => outcome !== 'delivered');
  return [...Map.groupBy(failed, ({ webhookId, outcome }) => `${webhookId} ${outcome}`).values()]
    .flatMap((same) => {
      const last = same.reduce((latest, row) => (row.hour > latest.hour ? row : latest));
      const { webhookId, outcome, hour } = last;
      return [{ webhookId, outcome, hour, attempts: same.reduce((sum, { attempts }) => sum + attempts, 0) }];
    })
    .toSorted(
      (a, b) => b.hour.getTime() - a.hour.getTime() || b.attempts - a.attempts || (a.outcome < b.outcome ? -1 : 1),
    );
}

/** Returns the statistics of one webhook, or of several together. Rows of other hours are ignored. */
export function figuresOf(rows: readonly HourRow[], now: Date): Figures {
  const firstMs = firstHourOf(now).getTime();
  const hours = Array.from({ length: HOURS_SHOWN }, (_, n) => ({
    ...emptyCounts(),
    at: new Date(firstMs + n * HOUR_MS),
  }));
  const shown: HourRow[] = [];
  for (const row of rows) {
    const n = (row.hour.getTime() - firstMs) / HOUR_MS;
    const hour = hours[n];
    if (hour === undefined) continue;
    hours[n] = { ...addRow(hour, row), at: hour.at };
    shown.push(row);
  }
  return { ...shown.reduce(addRow, emptyCounts()), hours, failures: failuresOf(shown) };
}

/**
 * Returns the percentage with one decimal, rounded down, so that one failure in a million is not "100 %"; null without attempts.
 */
export function successRate({ attempts, delivered }: AttemptCounts): number | null {
  return attempts === 0 ? null : Math.floor((delivered / attempts) * 1_000) / 10;
}

/** Return the histogram bucket of the median and of the 95th percentile of response times; null without responses. */
export function range50({ answered }: AttemptCounts): Range | null {
  return quantileOf(answered, 0.5);
}
export function range95({ answered }: AttemptCounts): Range | null {
  return quantileOf(answered, 0.95);
}

/** Returns the upper bound of a bucket, or the last bound for the open bucket. */
const upperMs = (range: Range | null): number | null => range && (range.within ?? range.above);
export function p50(counts: AttemptCounts): number | null {
  return upperMs(range50(counts));
}
export function p95(counts: AttemptCounts): number | null {
  return upperMs(range95(counts));
}
