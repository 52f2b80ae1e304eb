/** All resources of one kind that a store has, in their latest versions. */
import { bounded } from '#database/bounded.ts';
import type { Sql } from '#database/pool.ts';
import { listing } from '#http/listing.ts';
import { type Operation } from '#http/operation.ts';
import type { Comparisons } from '#kernel/listing.ts';
import { notFound } from '#kernel/problem.ts';
import { collectionKeyOf } from './access.ts';
import { collectionOf, relationsOf, typeOfCollection, wordsOf } from './catalogue.ts';
import { resourceDocument } from './document.ts';
import { listResources } from './queries.ts';

/** What every resource is compared by; whatever else its publisher wrote is compared as what it looks like. */
const PROPERTIES = { id: 'text', date_created: 'date', date_modified: 'date' } as const satisfies Comparisons;

export type CommerceDeps = {
  sql: Sql;
  baseUrl: string;
  relationPrefix: string;
  /** How long a store may be searched for one answer. */
  searchLimitMs: number;
};

export const createResourceList = ({ sql, baseUrl, searchLimitMs }: CommerceDeps): Operation =>
  listing({
    summary: 'The resources of one kind, in their latest versions, a page at a time; any property can be asked for',
    title: 'The resources of one kind',
    rel: 'resources',
    properties: PROPERTIES,
    isOpen: true,
    relations: ({ params }) => {
      const type = typeOfCollection(params['collection'] ?? '');
      return type === undefined ? {} : relationsOf(type);
    },
    handle: async (request) => {
      const key = collectionKeyOf(request);
      const { storeId, type } = key;
      const found = await bounded(sql, searchLimitMs, (tx) => listResources(tx, key, request.listing));
      if (found === undefined) throw notFound('store');
      const rel = collectionOf(type);
      const store = `${baseUrl}/stores/${storeId}`;
      return {
        rel,
        title: `The ${wordsOf(rel)} of this store`,
        path: `${store}/${rel}`,
        items: found.rows.map((row) =>
          resourceDocument({ ...row, storeId, type }, { zoom: request.zoom, fields: null }),
        ),
        total: found.total,
        links: [{ rel: 'store', href: store, title: 'The store' }],
      };
    },
  });
