import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeStates } from './record-sql.ts';

/** Deletes the states of deleted webhooks. */
export function createStatePurge({ sql }: { sql: Sql }): Purge {
  return {
    name: 'webhook_states',
    purge: (limit) => purgeStates(sql, limit),
  };
}
