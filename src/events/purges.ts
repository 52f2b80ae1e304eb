/** What has had its time in the tables of this room: keys that are free again, and what erased stores have left. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { purgeKeys } from './publish/key-sql.ts';
import { staleAt } from './publish/recall.ts';
import {
  deleteBook,
  deleteDays,
  deleteErasedResources,
  deleteEvents,
  deleteKeys,
  deleteResources,
  deleteTerms,
  nextWith,
  type Erased,
  type Place,
} from './purges-sql.ts';

type LeftBehind = Place & { name: string; remove: (sql: Sql, store: Erased, limit: number) => Promise<number> };

/** In the order of a few big things before many small ones; a store is forgotten when nothing of these is left. */
const LEFT_BEHIND: readonly LeftBehind[] = [
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

/** Store after store, until the batch is full or nothing is left that nobody holds. */
const emptying =
  (sql: Sql, { remove, ...place }: LeftBehind): Purge['purge'] =>
  async (limit) => {
    let removed = 0;
    while (removed < limit) {
      const store = await nextWith(sql, place);
      const rows = store === undefined ? 0 : await remove(sql, store, limit - removed);
      if (rows === 0) break;
      removed += rows;
    }
    return removed;
  };

export const createEventPurges = ({ sql }: { sql: Sql }): readonly Purge[] => [
  { name: 'publish_keys', purge: (limit, now) => purgeKeys(sql, limit, staleAt(now)) },
  ...LEFT_BEHIND.map((one) => ({ name: one.name, purge: emptying(sql, one) })),
];
