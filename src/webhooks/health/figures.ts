/** What the hours of webhooks say: pure. */
import { added, emptyHistogram, quantileOf, type Histogram, type Range } from '#core/histogram.ts';
import type { HourRow } from './health-sql.ts';

/** The hour that runs, and those before it. */
const HOURS_SHOWN = 24;
const HOUR_MS = 3_600_000;

/** Where an endpoint answered, how long it took says something of it; what was never connected took no time, or all there was. */
const ANSWERED: ReadonlySet<string> = new Set(['delivered', 'refused', 'gone']);

export type Fared = { attempts: number; delivered: number; answered: Histogram };

/** `hour`: the one in which it happened last. */
export type Failure = { webhookId: number; outcome: string; attempts: number; hour: Date };

/** `hours`: oldest first, each with its beginning. */
export type Figures = Fared & { hours: readonly (Fared & { at: Date })[]; failures: readonly Failure[] };

/** The beginning of the first of the hours that are shown. */
export const firstHourOf = (now: Date): Date =>
  new Date((Math.floor(now.getTime() / HOUR_MS) - HOURS_SHOWN + 1) * HOUR_MS);

const none = (): Fared => ({ attempts: 0, delivered: 0, answered: emptyHistogram() });

const plus = ({ attempts, delivered, answered }: Fared, row: HourRow): Fared => ({
  attempts: attempts + row.attempts,
  delivered: delivered + (row.outcome === 'delivered' ? row.attempts : 0),
  answered: ANSWERED.has(row.outcome) ? added(answered, row.durations) : answered,
});

const failuresOf = (rows: readonly HourRow[]): Failure[] => {
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
};

/** Of one webhook, or of several together. Rows of other hours count for nothing. */
export const figuresOf = (rows: readonly HourRow[], now: Date): Figures => {
  const firstMs = firstHourOf(now).getTime();
  const hours = Array.from({ length: HOURS_SHOWN }, (_, n) => ({ ...none(), at: new Date(firstMs + n * HOUR_MS) }));
  const shown: HourRow[] = [];
  for (const row of rows) {
    const n = (row.hour.getTime() - firstMs) / HOUR_MS;
    const hour = hours[n];
    if (hour === undefined) continue;
    hours[n] = { ...plus(hour, row), at: hour.at };
    shown.push(row);
  }
  return { ...shown.reduce(plus, none()), hours, failures: failuresOf(shown) };
};

/** Per cent with one decimal, rounded down: one that failed of a million is not "100 %". Null of nothing. */
export const successRate = ({ attempts, delivered }: Fared): number | null =>
  attempts === 0 ? null : Math.floor((delivered / attempts) * 1_000) / 10;

/** Between which bounds the time lies within which half, and all but a twentieth, of the answers came; null where none came. */
export const range50 = ({ answered }: Fared): Range | null => quantileOf(answered, 0.5);
export const range95 = ({ answered }: Fared): Range | null => quantileOf(answered, 0.95);

/** Its upper bound, or the last bound where it lies beyond. */
const upperMs = (range: Range | null): number | null => range && (range.within ?? range.above);
export const p50 = (fared: Fared): number | null => upperMs(range50(fared));
export const p95 = (fared: Fared): number | null => upperMs(range95(fared));
