/**
 * Statistics of webhooks from their hourly rows, and the reads of what they need. The health of one webhook or of a hundred takes
 * three statements, and two more if there are failures.
 */
import { invalid, type Fault } from '#core/problem.ts';
import { onlyValue } from '#hypermedia/paging.ts';
import { added, emptyHistogram, quantileOf, type Histogram, type Range } from '#core/histogram.ts';
import {
  listHours,
  listLastOutcomes,
  listLastFailures,
  listNotArrived,
  listPending,
  listSpans,
  type HealthRow,
  type HourRow,
  type LastFailureRow,
  type NotArrivedRow,
  type PendingRow,
} from './health-sql.ts';
import type { Queryable } from '#db/pool.ts';

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
function firstHourOf(now: Date, period: Period): Date {
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

/** The maximum number of failures whose last attempt is searched, the latest first, and of attempts searched for each. */
const FAILURES_MAX = 200;
const ATTEMPTS_SEARCHED_MAX = 1_000;

export type Health = {
  row: HealthRow;
  figures: Figures;
  pending: Omit<PendingRow, 'webhookId'>;
  /** The events that did not arrive. */
  notArrived: Omit<NotArrivedRow, 'webhookId'>;
  /** The result of the last attempt; null without one. */
  lastAttempt: 'delivered' | 'failed' | null;
  /** The last attempt by outcome; absent if it was not found. */
  last: ReadonlyMap<string, LastFailureRow>;
};

export type Healths = { healths: readonly Health[]; total: Figures };

/** Returns the hourly statistics of webhooks of one shard in a period. */
export async function readHours(
  sql: Queryable,
  shard: number,
  webhookIds: readonly number[],
  { now, period }: { now: Date; period: Period },
): Promise<HourRow[]> {
  const since = firstHourOf(now, period);
  const { spanHours } = PERIODS[period];
  return spanHours === 1
    ? listHours(sql, shard, webhookIds, since)
    : listSpans(sql, shard, webhookIds, { since, spanHours });
}

/** Returns the results of last attempts by webhook. */
export function lastAttempts(
  outcomes: readonly { webhookId: number; outcome: string }[],
): ReadonlyMap<number, 'delivered' | 'failed'> {
  return new Map(
    outcomes.map(({ webhookId, outcome }) => [webhookId, outcome === 'delivered' ? 'delivered' : 'failed']),
  );
}

/** The limit of counted events that did not arrive, per webhook. */
export const NOT_ARRIVED_COUNTED_MAX = 1_000;

/** Returns the health of webhooks of one shard. `pendingLimit`: the limit of counted pending deliveries per webhook. */
export async function readHealths(
  sql: Queryable,
  shard: number,
  webhooks: readonly HealthRow[],
  { now, pendingLimit, period = DEFAULT_PERIOD }: { now: Date; pendingLimit: number; period?: Period },
): Promise<Healths> {
  const ids = webhooks.map(({ id }) => id);
  const [hours, pending, notArrived] = await Promise.all([
    readHours(sql, shard, ids, { now, period }),
    listPending(sql, shard, webhooks, pendingLimit),
    listNotArrived(sql, shard, ids, NOT_ARRIVED_COUNTED_MAX),
  ]);
  const total = figuresOf(hours, now, period);
  const failures = total.failures.slice(0, FAILURES_MAX);
  const found = failures.length === 0 ? [] : await listLastFailures(sql, shard, failures, ATTEMPTS_SEARCHED_MAX);
  const notArrivedOf = new Map(notArrived.map((row) => [row.webhookId, row]));
  const hoursOf = Map.groupBy(hours, ({ webhookId }: HourRow) => webhookId);
  const pendingOf = new Map(pending.map((row) => [row.webhookId, row]));
  const lastOf = Map.groupBy(found, ({ webhookId }) => webhookId);
  const figuresById = new Map(ids.map((id) => [id, figuresOf(hoursOf.get(id) ?? [], now, period)]));
  // The last attempt of the others was delivered, as all of the period.
  const unsure = [...figuresById].filter(([, { attempts, delivered }]) => attempts === 0 || delivered < attempts);
  const unsureIds = unsure.map(([id]) => id);
  const outcomes = unsure.length === 0 ? [] : await listLastOutcomes(sql, shard, unsureIds);
  const isUnsure = new Set(unsureIds);
  const lastAttemptOf = lastAttempts(outcomes);
  const healths = webhooks.map((row) => ({
    row,
    figures: figuresById.get(row.id) ?? figuresOf([], now, period),
    pending: pendingOf.get(row.id) ?? { pending: 0, retrying: 0, oldestAt: null, nextAt: null },
    notArrived: notArrivedOf.get(row.id) ?? { count: 0, since: null },
    lastAttempt: isUnsure.has(row.id) ? (lastAttemptOf.get(row.id) ?? null) : ('delivered' as const),
    last: new Map((lastOf.get(row.id) ?? []).map((last) => [last.outcome, last])),
  }));
  return { healths, total };
}
