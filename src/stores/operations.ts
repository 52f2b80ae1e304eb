/** Stores over the API: {base_url}/stores. */
import type { Sql } from '#database/pool.ts';
import { guarded, type Operation } from '#http/operation.ts';
import { collection, readPage } from '#hypermedia/page.ts';
import { refuseParameters } from '#hypermedia/parameters.ts';
import { parseId, shardOf } from '#kernel/ids.ts';
import { notFound } from '#kernel/problem.ts';
import { reachesStore, type Principal } from '#kernel/principal.ts';
import { storeDocument } from './document.ts';
import { countStores, findStore, listStores, type Reach } from './queries.ts';

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
