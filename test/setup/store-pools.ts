/** Opens the pools of other databases of a map of shards, as the commands do. */
import { openPool } from '#db/pool.ts';
import type { StorePools } from '../../src/server/app.ts';

/** Returns the pools of a migrated database. */
export function openPools({ url }: { url: string }): StorePools {
  const sql = openPool({ kind: 'url', url }, { connections: 10, applicationName: 'other database' });
  return { sql, direct: sql, prepare: async () => {}, close: async () => sql.end({ timeout: 0 }) };
}
