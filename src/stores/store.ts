/** Stores: how they come to be, who belongs to them, and how the API reads them. */
import type { Queryable, Sql } from '#database/pool.ts';
import { guarded, type Operation } from '#http/operation.ts';
import { collection, readPage } from '#hypermedia/page.ts';
import { refuseParameters } from '#hypermedia/parameters.ts';
import { idOf, parseId, shardOf } from '#kernel/ids.ts';
import { invalid, notFound } from '#kernel/problem.ts';
import { reachesStore, type Principal } from '#kernel/principal.ts';
import { storeDocument } from './document.ts';
import {
  countStores,
  deleteMember,
  findStore,
  insertStore,
  listStores,
  nextNumber,
  upsertMember,
  type Reach,
  type Role,
} from './queries.ts';
import { readTimeZone, shardOfNumber, storeFaults, type StoreDetails } from './rules.ts';

/** A new store on a shard of its own choosing. Throws a 400 with one entry for each detail that cannot be. */
export const createStore = async (sql: Queryable, store: StoreDetails & { now: Date }): Promise<{ id: number }> => {
  const faults = storeFaults(store);
  if (faults.length > 0) throw invalid(...faults);
  const n = await nextNumber(sql);
  const shard = shardOfNumber(n);
  const id = idOf(n, shard);
  const timeZone = readTimeZone(store.timeZone) ?? store.timeZone;
  await insertStore(sql, { ...store, shard, id, timeZone, domain: store.domain.toLowerCase() });
  return { id };
};

/** Makes a user a member of a store, or changes the role of one. Throws a 404 where either does not exist. */
export const addMember = async (
  sql: Queryable,
  member: { storeId: number; userId: number; role: Role; now: Date },
): Promise<void> => {
  if (!(await upsertMember(sql, { ...member, shard: shardOf(member.storeId) }))) throw notFound('store or user');
};

/**
 * Takes a user out of a store; what they have allowed apps there stops counting at the next request, and comes back with
 * them. Throws a 404 where they are no member.
 */
export const removeMember = async (sql: Queryable, member: { storeId: number; userId: number }): Promise<void> => {
  if (!(await deleteMember(sql, { ...member, shard: shardOf(member.storeId) }))) throw notFound('member');
};

const reachOf = ({ stores }: Principal): Reach =>
  stores === 'all' ? null : { ids: stores, shards: [...new Set(stores.map(shardOf))] };

export const createStoreOperations = ({
  sql,
  baseUrl,
}: {
  sql: Sql;
  baseUrl: string;
}): { read: Operation; list: Operation } => ({
  read: guarded({
    summary: 'One store',
    handle: async ({ params, principal, query }) => {
      refuseParameters(query, []);
      const id = parseId(params['store_id'] ?? '');
      const reached = id !== undefined && reachesStore(principal, id);
      const store = reached ? await findStore(sql, shardOf(id), id) : undefined;
      if (store === undefined) throw notFound('store');
      return { status: 200, document: storeDocument(store, baseUrl) };
    },
  }),
  list: guarded({
    summary: 'The stores this token reaches, a page at a time',
    handle: async ({ principal, query }) => {
      const page = readPage(query);
      const reach = reachOf(principal);
      const [stores, total] = await Promise.all([listStores(sql, reach, page), countStores(sql, reach)]);
      const items = stores.map((store) => storeDocument(store, baseUrl));
      const path = `${baseUrl}/stores`;
      const document = collection({
        name: 'stores',
        rel: 'stores',
        title: 'Your stores',
        path,
        query,
        page,
        total,
        items,
      });
      return { status: 200, document };
    },
  }),
});
