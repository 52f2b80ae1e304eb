/** Statistics from the hourly rows of webhooks, as pure functions. */
import { invalid, type Fault } from '#core/problem.ts';
import { onlyValue } from '#hypermedia/paging.ts';
import { added, emptyHistogram, quantileOf, type Histogram, type Range } from '#core/histogram.ts';
import type { HourRow } from './health-sql.ts';

const HOUR_MS = 3_600_000;

/**
 * The periods that statistics can be shown for, each until the end of the current hour: its words, and the hours of the spans into
 * which it is divided.
 */
export const PERIODS = {
  '24h': { label: '24 hours', words: 'the last 24 hours', hours: 24, spanHours: 1, span: 'hour' },
  '7d': { label: '7 days', words: 'the last 7 days', hours: 7 * 24, spanHours: 6, span: '6 hours' },
  '30d': { label: '30 days', words: 'the last 30 days', hours: 30 * 24, spanHours: 24, span: '24 hours' },
} as const;
export type Period = keyof typeof PERIODS;
export const DEFAULT_PERIOD: Period = '24h';

const isPeriod = (value: string): value is Period => Object.hasOwn(PERIODS, value);

/** Returns the requested period. Throws a 400 for another value. */
export function readPeriod(query: URLSearchParams): Period {
  const faults: Fault[] = [];
  const value = onlyValue(query, 'period', faults) ?? DEFAULT_PERIOD;
  if (faults.length === 0 && isPeriod(value)) return value;
  const message = `period must be one of ${Object.keys(PERIODS).join(', ')}`;
  throw invalid(...(faults.length > 0 ? faults : [{ code: 'invalid_parameter', message, field: 'period' }]));
}

/** Only outcomes with a response count for response times; other durations are zero or the timeout. */
const ANSWERED: ReadonlySet<string> = new Set(['delivered', 'refused', 'gone']);

export type AttemptCounts = { attempts: number; delivered: number; answered: Histogram };

/** `hour`: the last hour with this failure. */
export type Failure = { webhookId: number; outcome: string; attempts: number; hour: Date };

/** `spans`: the parts of the period, oldest first; `at` is the beginning of each. */
export type Figures = AttemptCounts & {
  period: Period;
  spans: readonly (AttemptCounts & { at: Date })[];
  failures: readonly Failure[];
};

/** Returns the beginning of the first hour of the period. */
export function firstHourOf(now: Date, period: Period): Date {
  return new Date((Math.floor(now.getTime() / HOUR_MS) - PERIODS[period].hours + 1) * HOUR_MS);
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
      const { webhookId, outcome, lastHour: hour = last.hour } = last;
      return [{ webhookId, outcome, hour, attempts: same.reduce((sum, { attempts }) => sum + attempts, 0) }];
    })
    .toSorted(
      (a, b) => b.hour.getTime() - a.hour.getTime() || b.attempts - a.attempts || (a.outcome < b.outcome ? -1 : 1),
    );
}

/** Returns the statistics of one webhook, or of several together. Rows of other hours are ignored. */
export function figuresOf(rows: readonly HourRow[], now: Date, period: Period = DEFAULT_PERIOD): Figures {
  const firstMs = firstHourOf(now, period).getTime();
  const { hours, spanHours } = PERIODS[period];
  const spanMs = spanHours * HOUR_MS;
  const spans = Array.from({ length: hours / spanHours }, (_, n) => ({
    ...emptyCounts(),
    at: new Date(firstMs + n * spanMs),
  }));
  const shown: HourRow[] = [];
  for (const row of rows) {
    const n = Math.floor((row.hour.getTime() - firstMs) / spanMs);
    const span = spans[n];
    if (span === undefined) continue;
    spans[n] = { ...addRow(span, row), at: span.at };
    shown.push(row);
  }
  return { ...shown.reduce(addRow, emptyCounts()), period, spans, failures: failuresOf(shown) };
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
