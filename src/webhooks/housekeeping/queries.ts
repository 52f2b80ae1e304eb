/**
 * The statements that tidy up. Their rows are found as an array: as a join, the planner may read the whole table instead. A
 * row that somebody holds is left for the next time.
 */
import type { Queryable } from '#database/pool.ts';

/** The next key is the key. Found by an index, the oldest first. Nothing that anybody sees changes by it, so neither does the revision. */
export const moveKeys = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    update webhook set encryption_key = next_encryption_key, next_encryption_key = null, rotation_ends_at = null
    where ctid = any(array(
      select ctid from webhook where rotation_ends_at <= ${before}
      order by rotation_ends_at limit ${limit} for update skip locked
    ))
  `;
  return count;
};

/**
 * What workers noted of webhooks that are gone. Not done as they go: of what was under way then a worker writes later. Without
 * any to find, a look through a million takes 0.8 s.
 */
export const dropStates = async (sql: Queryable, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from webhook_state where ctid = any(array(
      select t.ctid from webhook_state t
      where not exists (select from webhook w where w.shard = t.shard and w.id = t.webhook_id)
      limit ${limit} for update of t skip locked
    ))
  `;
  return count;
};
