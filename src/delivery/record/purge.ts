import type { Sql } from '#database/pool.ts';
import type { Purge } from '#kernel/purge.ts';
import { purgeStates } from './queries.ts';

/** What was noted of webhooks that are deleted. */
export const createStatePurge = ({ sql }: { sql: Sql }): Purge => ({
  name: 'webhook_states',
  purge: (limit) => purgeStates(sql, limit),
});
