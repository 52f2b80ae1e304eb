import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeStates } from './record-sql.ts';

/** What was noted of webhooks that are deleted. */
export const createStatePurge = ({ sql }: { sql: Sql }): Purge => ({
  name: 'webhook_states',
  purge: (limit) => purgeStates(sql, limit),
});
