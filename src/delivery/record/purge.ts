import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeStates } from './record-sql.ts';

/** Deletes the states of deleted webhooks. */
export const createStatePurge = ({ sql }: { sql: Sql }): Purge => ({
  name: 'webhook_states',
  purge: (limit) => purgeStates(sql, limit),
});
