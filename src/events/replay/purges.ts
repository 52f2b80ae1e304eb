/** Purge of old recoveries. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeRecoveries } from './recovery-sql.ts';

const DAY_MS = 86_400_000;

/** Keeps recoveries as long as the deliveries that they created, which are dropped by whole days. */
export function createRecoveryPurges(deps: { sql: Sql; retentionDays: number }): readonly Purge[] {
  const { sql, retentionDays } = deps;
  const keptMs = (retentionDays + 1) * DAY_MS;
  return [{ name: 'recoveries', purge: (limit, now) => purgeRecoveries(sql, limit, new Date(now.getTime() - keptMs)) }];
}
