/** What erased stores have left in the tables of this room. */
import type { Sql } from '#database/pool.ts';
import type { Purge } from '#kernel/purge.ts';
import { deleteEvents, deleteResources, nextWithEvents, nextWithResources, type Erased } from './queries.ts';

type Statements = {
  next: (sql: Sql) => Promise<Erased | undefined>;
  remove: (sql: Sql, store: Erased, limit: number) => Promise<number>;
};

/** Store after store, until the batch is full or nothing is left that nobody holds. */
const emptying =
  (sql: Sql, { next, remove }: Statements): Purge['purge'] =>
  async (limit) => {
    let removed = 0;
    while (removed < limit) {
      const store = await next(sql);
      const rows = store === undefined ? 0 : await remove(sql, store, limit - removed);
      if (rows === 0) break;
      removed += rows;
    }
    return removed;
  };

export const createEventPurges = ({ sql }: { sql: Sql }): readonly Purge[] => [
  { name: 'resources_of_erased_stores', purge: emptying(sql, { next: nextWithResources, remove: deleteResources }) },
  { name: 'events_of_erased_stores', purge: emptying(sql, { next: nextWithEvents, remove: deleteEvents }) },
];
