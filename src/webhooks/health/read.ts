/** All that is read of how webhooks fare: three statements, and a fourth where something failed, for one webhook or a hundred. */
import type { Queryable } from '#db/pool.ts';
import { figuresOf, firstHourOf, type Figures } from './figures.ts';
import {
  listHours,
  listLast,
  listPending,
  type HealthRow,
  type HourRow,
  type LastRow,
  type PendingRow,
} from './health-sql.ts';

/** How many failures are looked up at most, those that happened most often first, and among how many attempts each. */
const FAILURES_LOOKED_UP = 200;
const ATTEMPTS_LOOKED_AT = 1_000;

export type Health = {
  row: HealthRow;
  figures: Figures;
  pending: Omit<PendingRow, 'webhookId'>;
  /** By outcome; missing where it was not found. */
  last: ReadonlyMap<string, LastRow>;
};

export type Healths = { healths: readonly Health[]; together: Figures };

/** `pendingLimit`: how far the pending deliveries of each are counted. All of one shard. */
export const readHealths = async (
  sql: Queryable,
  shard: number,
  webhooks: readonly HealthRow[],
  { now, pendingLimit }: { now: Date; pendingLimit: number },
): Promise<Healths> => {
  const ids = webhooks.map(({ id }) => id);
  const [hours, pending] = await Promise.all([
    listHours(sql, shard, ids, firstHourOf(now)),
    listPending(sql, shard, webhooks, pendingLimit),
  ]);
  const together = figuresOf(hours, now);
  const wanted = together.failures.slice(0, FAILURES_LOOKED_UP);
  const found = wanted.length === 0 ? [] : await listLast(sql, shard, wanted, ATTEMPTS_LOOKED_AT);
  const hoursOf = Map.groupBy(hours, ({ webhookId }: HourRow) => webhookId);
  const pendingOf = new Map(pending.map((row) => [row.webhookId, row]));
  const lastOf = Map.groupBy(found, ({ webhookId }) => webhookId);
  const healths = webhooks.map((row) => ({
    row,
    figures: figuresOf(hoursOf.get(row.id) ?? [], now),
    pending: pendingOf.get(row.id) ?? { pending: 0, oldestAt: null },
    last: new Map((lastOf.get(row.id) ?? []).map((last) => [last.outcome, last])),
  }));
  return { healths, together };
};
