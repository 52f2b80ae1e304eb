/** API operations on commerce resources: read the latest version, list a type, read an embedded relation. */
import { guarded, type Charted, type Operation } from '#http/operation.ts';
import { isVisible, resourceNotFound, resourceKeyOf, resourceScopes } from './access.ts';
import { zoomableOf } from './catalog.ts';
import { createResourceList, type CommerceDeps } from './collection.ts';
import { resourceDocument } from './document.ts';
import { findResource, findUpTo, type ResourceKey } from './catalog-sql.ts';
import { createRelation } from './relation.ts';
import { DAYS_SHOWN, revenueCharts } from './revenue/curve.ts';
import { shapeOf } from './shape.ts';

/** Returns the revenue charts up to a snapshot. */
const chartsOf = ({ sql }: CommerceDeps, key: ResourceKey): { charts?: Charted } =>
  key.type === 'subscription_mrr_snapshot'
    ? { charts: async () => revenueCharts(await findUpTo(sql, key, DAYS_SHOWN)) }
    : {};

export function createCommerceOperations(deps: CommerceDeps): Record<'list' | 'read' | 'relation', Operation> {
  return {
    list: createResourceList(deps),
    read: guarded({
      summary: 'The latest version of this resource; zoom and fields shape it',
      ...resourceScopes(),
      modifiers: ['zoom', 'fields'],
      handle: async (request) => {
        const key = resourceKeyOf(request);
        const stored = await findResource(deps.sql.reads, key);
        if (stored === undefined || !isVisible(request.principal, { ...stored, type: key.type }))
          throw resourceNotFound(key.type);
        const { version, baseUrl, body } = stored;
        const document = resourceDocument({ ...key, baseUrl, body }, shapeOf(request.query, zoomableOf(key.type)));
        const naming = { baseUrl, relationPrefix: deps.relationPrefix };
        return { status: 200, document: { ...document, version }, naming, ...chartsOf(deps, key) };
      },
    }),
    relation: createRelation(deps),
  };
}
