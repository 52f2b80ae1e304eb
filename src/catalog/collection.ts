/** The API operation that lists the resources of one type, in their latest versions. */
import type { Sql } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import { listing } from '#http/listing.ts';
import type { ApiRequest, Operation } from '#http/operation.ts';
import type { Comparisons, Listing } from '#core/listing.ts';
import { invalid, notFound } from '#core/problem.ts';
import { collectionKeyOf, resourceScopes, visibleAppOf, zoneOf } from './access.ts';
import { collectionOf, labelOf, typeOfCollection, zoomableOf, type ResourceType } from './catalog.ts';
import { resourceDocument } from './document.ts';
import { internalProperties } from './internal-types.ts';
import { listResources } from './catalog-sql.ts';
import { revenueCharts } from './revenue/curve.ts';

/** Properties that every resource has. Other properties are compared by the type that their values look like. */
const PROPERTIES = { id: 'text', date_created: 'date', date_modified: 'date' } as const satisfies Comparisons;

export type CommerceDeps = {
  sql: Sql;
  baseUrl: string;
  relationPrefix: string;
  search: Search;
};

function tooLarge(fitting: number) {
  const message = `These resources are too large for one page: use limit=${fitting}, which fits at this offset`;
  return invalid({ code: 'too_large', message, field: 'limit' });
}

/** Returns the listing of the request; of an app's listing of changes of access only its own. */
function visibleListing(
  { listing: query, principal }: Pick<ApiRequest, 'principal'> & { listing: Listing },
  type: ResourceType,
): Listing {
  const clientId = type === 'app' ? visibleAppOf(principal) : null;
  if (clientId === null) return query;
  return { ...query, filters: [...query.filters, { property: 'client_id', operator: 'is', value: clientId }] };
}

export function createResourceList({ sql, search, baseUrl }: CommerceDeps): Operation {
  return listing({
    summary: 'The resources of one type, in their latest versions, in pages; filters accept any property',
    ...resourceScopes(),
    title: 'Resources of one type',
    rel: 'resources',
    properties: PROPERTIES,
    // The other dates are in the JSON text.
    narrowedBy: 'date_modified',
    isOpen: true,
    zone: (request) => zoneOf(sql, request),
    closedAt: ({ collection = '' }) => {
      const type = typeOfCollection(collection);
      return type && internalProperties(type);
    },
    relations: ({ params }) => {
      const type = typeOfCollection(params['collection'] ?? '');
      return type === undefined ? {} : zoomableOf(type);
    },
    handle: async (request) => {
      const key = collectionKeyOf(request);
      const { storeId, type } = key;
      const visible = visibleListing(request, type);
      const found = await search(storeId, visible, (tx) => listResources(tx, key, visible));
      if (found === undefined) throw notFound('store');
      if ('fitting' in found) throw tooLarge(found.fitting);
      const rel = collectionOf(type);
      const store = `${baseUrl}/stores/${storeId}`;
      return {
        rel,
        title: `The ${labelOf(rel)} of this store`,
        path: `${store}/${rel}`,
        items: found.rows.map((row) =>
          resourceDocument({ ...row, storeId, type }, { zoom: request.zoom, fields: null }),
        ),
        total: found.total,
        links: [{ rel: 'store', href: store, title: 'The store', crumb: 'Store' }],
        ...(type === 'subscription_mrr_snapshot' && {
          charts: async () => revenueCharts(found.rows.map(({ body }) => body)),
        }),
      };
    },
  });
}
