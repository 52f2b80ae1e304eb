/** The purges of this module. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { moveKeys } from './purges-sql.ts';

/** Removes keys whose rotation has ended. They are already invalid, and are removed so that no later backup contains them. */
export function createWebhookPurges({ sql }: { sql: Sql }): readonly Purge[] {
  return [{ name: 'rotated_keys', purge: (limit, now) => moveKeys(sql, now, limit) }];
}
