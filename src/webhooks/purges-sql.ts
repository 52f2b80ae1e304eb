/** The keys of webhooks after their rotation. */
import type { Queryable, Sql } from '#db/pool.ts';
import { purgesOf, type Purge } from '#db/purges.ts';

/** Removes keys whose rotation has ended. They are already invalid, and are removed so that no later backup contains them. */
export function createWebhookPurges({ sql }: { sql: Sql }): readonly Purge[] {
  return purgesOf(sql, [{ name: 'rotated_keys', by: moveKeys }]);
}

/**
 * Moves the next key into the place of the current one. The rows are selected through an index as an array, because the planner
 * may read the whole table for a join; locked rows are skipped. The revision stays, because the visible state does not change.
 */
async function moveKeys(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    update webhook set encryption_key = next_encryption_key, next_encryption_key = null, rotation_ends_at = null
    where ctid = any(array(
      select ctid from webhook where rotation_ends_at <= ${before}
      order by rotation_ends_at limit ${limit} for update skip locked
    ))
  `;
  return count;
}
