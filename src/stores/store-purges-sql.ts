/** The records of erased stores, and expired invitations. */
import type { Queryable, Sql } from '#db/pool.ts';
import { purgesOf, type OrderedTable, type Purge } from '#db/purges.ts';

/** A publish that read the store before its erasure may still write; no request takes longer than this. */
const REQUEST_MAX_MS = 3_600_000;

/** `tables` may contain rows of an erased store; their `order` are the index columns after `shard, store_id`. */
export function createStorePurges({ sql, tables }: { sql: Sql; tables: readonly OrderedTable[] }): readonly Purge[] {
  return purgesOf(sql, [
    {
      name: 'erased_stores',
      by: (_, before, limit) => deleteEmptied(sql, tables, before, limit),
      keptMs: REQUEST_MAX_MS,
    },
  ]);
}

export function createInvitationPurges({ sql }: { sql: Sql }): readonly Purge[] {
  return purgesOf(sql, [{ name: 'invitations', deletes: 'invitation', key: 'ctid', expires: 'date_expires' }]);
}

/** Deletes the records of stores that were erased at `before` or earlier and have no rows left. */
async function deleteEmptied(
  sql: Queryable,
  tables: readonly OrderedTable[],
  before: Date,
  limit: number,
): Promise<number> {
  const { count } = await sql`
    delete from erased_store where (shard, id) in (
      select e.shard, e.id from erased_store e
      where e.date_erased <= ${before} and ${isEmptied(sql, tables)}
      limit ${limit} for update skip locked
    )`;
  return count;
}

/**
 * Uses scalar subqueries, which look up an index per store; with `not exists` the planner may read the large tables completely.
 */
const isEmptied = (sql: Queryable, tables: readonly OrderedTable[]) =>
  tables.reduce(
    (before, { deletes, order }) => sql`${before} and (
      select 1 from ${sql(deletes)} r where r.shard = e.shard and r.store_id = e.id order by ${sql(order)} limit 1
    ) is null`,
    sql`true`,
  );
