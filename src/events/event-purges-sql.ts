/** The expired rows of this module, and those of erased stores. */
import { IDEMPOTENCY_KEPT_MS } from '#http/idempotency.ts';
import type { StoreKey } from '#core/ids.ts';
import type { Fragment, Queryable, Sql } from '#db/pool.ts';
import { deleteBatch, purgesOf, type OrderedTable, type Purge } from '#db/purges.ts';

const DAY_MS = 86_400_000;

/** Recoveries are kept as long as the deliveries that they created, which are dropped by whole days. */
export function createEventPurges({ sql, retentionDays }: { sql: Sql; retentionDays: number }): readonly Purge[] {
  const keptMs = (retentionDays + 1) * DAY_MS;
  return purgesOf(sql, [
    { name: 'publish_keys', deletes: 'publish_key', key: 'ctid', expires: 'date_created', keptMs: IDEMPOTENCY_KEPT_MS },
    { name: 'recoveries', deletes: 'recovery', key: 'ctid', expires: 'date_ended', keptMs },
  ]);
}

/** `isDue`: the condition that the row `r` may be deleted already. */
type StoreTable = OrderedTable & { name: string; by?: typeof deleteRows; isDue?: (sql: Queryable) => Fragment };

/**
 * SQL condition: the event `r` is not that of the erasure, or no webhook of the store waits for it any more. With `not exists`, or without the
 * order, the planner may read all webhooks.
 */
const isSent = (sql: Queryable) => sql`(
  (r.resource_type, r.action) <> ('app', 'store_erased')
  or (select 1 from webhook w where w.shard = r.shard and w.store_id = r.store_id order by w.id limit 1) is null
)`;

/**
 * Tables that may contain rows of an erased store, with the index columns after `shard, store_id`. Tables with few large rows come
 * before tables with many small ones. An erased store is deleted from `erased_store` when all these tables are empty.
 */
export const TABLES_OF_STORES: readonly StoreTable[] = [
  { name: 'resources_of_erased_stores', deletes: 'resource', order: ['type', 'id'] },
  { name: 'events_of_erased_stores', deletes: 'event', order: ['id'], by: deleteEvents, isDue: isSent },
  { name: 'keys_of_erased_stores', deletes: 'publish_key', order: ['key'] },
  { name: 'erased_resources_of_erased_stores', deletes: 'erased_resource', order: ['type', 'id'] },
  { name: 'subscription_terms_of_erased_stores', deletes: 'subscription_term', order: ['subscription_id', 'day'] },
  { name: 'revenue_days_of_erased_stores', deletes: 'revenue_day', order: ['day'] },
  { name: 'revenue_books_of_erased_stores', deletes: 'revenue_book', order: ['store_id'] },
];

export function createErasedStorePurges({ sql }: { sql: Sql }): readonly Purge[] {
  return purgesOf(
    sql,
    TABLES_OF_STORES.map((table) => ({ name: table.name, by: (_, _before, limit) => emptyTable(sql, table, limit) })),
  );
}

/** Deletes rows store by store until the limit is reached or the remaining rows are locked. */
async function emptyTable(sql: Sql, table: StoreTable, limit: number): Promise<number> {
  const { by = deleteRows } = table;
  let removed = 0;
  while (removed < limit) {
    const store = await findErasedStoreWith(sql, table);
    const rows = store === undefined ? 0 : await by(sql, table, store, limit - removed);
    if (rows === 0) break;
    removed += rows;
  }
  return removed;
}

/**
 * Returns an erased store that still has rows in the table. The `order by` matches an index: without it, `limit` lets the planner
 * choose a sequential scan because it expects to find the store's rows early.
 */
async function findErasedStoreWith(
  sql: Queryable,
  { deletes, order, isDue }: StoreTable,
): Promise<StoreKey | undefined> {
  const [row] = await sql<StoreKey[]>`
    select e.shard, e.id as "storeId"
    from erased_store e
    cross join lateral (
      select from ${sql(deletes)} r where r.shard = e.shard and r.store_id = e.id
        and ${isDue === undefined ? sql`true` : isDue(sql)}
      order by ${sql(order)} limit 1
    ) as remaining
    limit 1`;
  return row;
}

/** Deletes by `ctid`: by key, each batch would read over the rows that earlier batches deleted. */
function deleteRows(
  sql: Queryable,
  { deletes, order }: OrderedTable,
  { shard, storeId }: StoreKey,
  limit: number,
): Promise<number> {
  return deleteBatch(sql, { deletes, key: 'ctid', order }, sql`shard = ${shard} and store_id = ${storeId}`, limit);
}

/**
 * Deletes in two statements: in one, PostgreSQL would look for each event in every partition, because partitions are pruned
 * before the ids are known.
 */
async function deleteEvents(
  sql: Queryable,
  _: OrderedTable,
  { shard, storeId }: StoreKey,
  limit: number,
): Promise<number> {
  const rows = await sql<{ id: number }[]>`
    select id from event r where shard = ${shard} and store_id = ${storeId} and ${isSent(sql)}
    order by id desc limit ${limit}`;
  const ids = rows.map(({ id }) => id);
  const { count } = await sql`
    delete from event where shard = ${shard} and store_id = ${storeId} and id = any(${ids}::bigint[])`;
  return count;
}
