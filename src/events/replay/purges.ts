/** Recoveries that have had their time. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeRecoveries } from './recovery-sql.ts';

const DAY_MS = 86_400_000;

/** They are kept as long as the deliveries they made, which go by whole days. */
export const createRecoveryPurges = (deps: { sql: Sql; retentionDays: number }): readonly Purge[] => {
  const { sql, retentionDays } = deps;
  const keptMs = (retentionDays + 1) * DAY_MS;
  return [{ name: 'recoveries', purge: (limit, now) => purgeRecoveries(sql, limit, new Date(now.getTime() - keptMs)) }];
};
