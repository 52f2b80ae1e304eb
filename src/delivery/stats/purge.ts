import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeHours } from './hourly-sql.ts';

const DAY_MS = 86_400_000;

/** Deletes hourly statistics that no chart shows any more. */
export function createHourlyStatsPurge({ sql, keptDays }: { sql: Sql; keptDays: number }): Purge {
  return {
    name: 'webhook_hours',
    purge: (limit, now) => purgeHours(sql, new Date(now.getTime() - keptDays * DAY_MS), limit),
  };
}
