/** What the platform and commands of the operator have changed in a store, in the sentences of its changelog. */
import { listResources } from '#catalog/catalog-sql.ts';
import type { Filter } from '#core/listing.ts';
import { parseEntry, textOfEntry } from '#dashboard/changelog-page.ts';
import { findNames } from '#dashboard/names-sql.ts';
import type { Sql } from '#db/pool.ts';
import type { Search } from '#db/search.ts';

/** `date`: in the time zone of the store. */
type StoreChange = { date: string; sentence: string };

/** Returns the latest changes of a store, at most `STORE_CHANGES_MAX`, the newest first. Throws the errors of `Search`. */
export type ReadStoreChanges = (store: { shard: number; storeId: number }) => Promise<StoreChange[]>;

export const STORE_CHANGES_MAX = 50;
const BY_OPERATORS: Filter = {
  property: 'actor',
  operator: 'in',
  value: ['platform', 'operator'].map((value) => ({ property: 'actor', operator: 'is', value })),
};
/** The audit has suspensions with the operator who acted, and a member may get a link at each visit. */
const WITHOUT: readonly Filter[] = [
  ...['before', 'after'].map(
    (when) => ({ property: `/${when}/suspended_reason`, operator: 'is', value: null }) as const,
  ),
  { property: 'action', operator: 'not', value: 'link_created' },
];

/** `sql`: the database of the store; `accounts`: the home database. */
export function createStoreChanges({
  sql,
  accounts,
  search,
}: {
  sql: Sql;
  accounts: Sql;
  search: Search;
}): ReadStoreChanges {
  const listing = { offset: 0, limit: STORE_CHANGES_MAX, order: [], filters: [BY_OPERATORS, ...WITHOUT] };
  return async (store) => {
    const found = await search(store.storeId, listing, (tx) =>
      listResources(tx, { ...store, type: 'changelog' }, listing),
    );
    const rows = found !== undefined && 'rows' in found ? found.rows : [];
    const entries = rows.flatMap(({ body }) => parseEntry(body) ?? []);
    const names = await findNames({ sql, accounts }, store, {
      webhookIds: entries.flatMap(({ resource, resource_id: id }) => (resource === 'webhook' ? [Number(id)] : [])),
      clientIds: [],
    });
    return entries.map((entry) => ({ date: entry.date_created, sentence: textOfEntry(entry, names) }));
  };
}
