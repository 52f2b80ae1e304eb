/** Purges of the tables of this module: expired idempotency keys and rows of erased stores. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeKeys } from './publish/key-sql.ts';
import { staleAt } from './publish/key.ts';
import {
  deleteBook,
  deleteDays,
  deleteErasedResources,
  deleteEvents,
  deleteKeys,
  deleteResources,
  deleteTerms,
  findErasedStoreWith,
  type ErasedStore,
  type TableIndex,
} from './purges-sql.ts';

type StorePurge = TableIndex & {
  name: string;
  remove: (sql: Sql, store: ErasedStore, limit: number) => Promise<number>;
};

/**
 * Tables with few large rows come before tables with many small ones. An erased store is deleted from `erased_store` when all
 * these tables are empty.
 */
const STORE_PURGES: readonly StorePurge[] = [
  { name: 'resources_of_erased_stores', table: 'resource', order: ['type', 'id'], remove: deleteResources },
  { name: 'events_of_erased_stores', table: 'event', order: ['id'], remove: deleteEvents },
  { name: 'keys_of_erased_stores', table: 'publish_key', order: ['key'], remove: deleteKeys },
  {
    name: 'erased_resources_of_erased_stores',
    table: 'erased_resource',
    order: ['type', 'id'],
    remove: deleteErasedResources,
  },
  {
    name: 'subscription_terms_of_erased_stores',
    table: 'subscription_term',
    order: ['subscription_id', 'day'],
    remove: deleteTerms,
  },
  { name: 'revenue_days_of_erased_stores', table: 'revenue_day', order: ['day'], remove: deleteDays },
  { name: 'revenue_books_of_erased_stores', table: 'revenue_book', order: ['store_id'], remove: deleteBook },
];

/** Returns a purge that empties the table store by store until the limit is reached or the remaining rows are locked. */
const createStorePurge =
  (sql: Sql, { remove, ...index }: StorePurge): Purge['purge'] =>
  async (limit) => {
    let removed = 0;
    while (removed < limit) {
      const store = await findErasedStoreWith(sql, index);
      const rows = store === undefined ? 0 : await remove(sql, store, limit - removed);
      if (rows === 0) break;
      removed += rows;
    }
    return removed;
  };

export function createEventPurges({ sql }: { sql: Sql }): readonly Purge[] {
  return [
    { name: 'publish_keys', purge: (limit, now) => purgeKeys(sql, limit, staleAt(now)) },
    ...STORE_PURGES.map((storePurge) => ({ name: storePurge.name, purge: createStorePurge(sql, storePurge) })),
  ];
}
