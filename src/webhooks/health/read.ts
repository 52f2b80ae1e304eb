/** Reads the health of webhooks: two statements, and a third if there are failures, for one webhook or a hundred. */
import type { Queryable } from '#db/pool.ts';
import { DEFAULT_PERIOD, figuresOf, firstHourOf, PERIODS, type Figures, type Period } from './figures.ts';
import {
  listHours,
  listLastFailures,
  listPending,
  listSpans,
  type HealthRow,
  type HourRow,
  type LastFailureRow,
  type PendingRow,
} from './health-sql.ts';

/** The maximum number of failures whose last attempt is searched, the latest first, and of attempts searched for each. */
const FAILURES_MAX = 200;
const ATTEMPTS_SEARCHED_MAX = 1_000;

export type Health = {
  row: HealthRow;
  figures: Figures;
  pending: Omit<PendingRow, 'webhookId'>;
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

/** Returns the health of webhooks of one shard. `pendingLimit`: the limit of counted pending deliveries per webhook. */
export async function readHealths(
  sql: Queryable,
  shard: number,
  webhooks: readonly HealthRow[],
  { now, pendingLimit, period = DEFAULT_PERIOD }: { now: Date; pendingLimit: number; period?: Period },
): Promise<Healths> {
  const ids = webhooks.map(({ id }) => id);
  const [hours, pending] = await Promise.all([
    readHours(sql, shard, ids, { now, period }),
    listPending(sql, shard, webhooks, pendingLimit),
  ]);
  const total = figuresOf(hours, now, period);
  const failures = total.failures.slice(0, FAILURES_MAX);
  const found = failures.length === 0 ? [] : await listLastFailures(sql, shard, failures, ATTEMPTS_SEARCHED_MAX);
  const hoursOf = Map.groupBy(hours, ({ webhookId }: HourRow) => webhookId);
  const pendingOf = new Map(pending.map((row) => [row.webhookId, row]));
  const lastOf = Map.groupBy(found, ({ webhookId }) => webhookId);
  const healths = webhooks.map((row) => ({
    row,
    figures: figuresOf(hoursOf.get(row.id) ?? [], now, period),
    pending: pendingOf.get(row.id) ?? { pending: 0, oldestAt: null, nextAt: null },
    last: new Map((lastOf.get(row.id) ?? []).map((last) => [last.outcome, last])),
  }));
  return { healths, total };
}
