/**
 * The statement that tidies up after rotations. Its rows are found by an index, the oldest first, as an array: as a join, the
 * planner may read the whole table instead. A row that somebody holds is left for the next time.
 */
import type { Queryable } from '#db/pool.ts';

/** The next key is the key. Nothing that anybody sees changes by it, so neither does the revision. */
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
