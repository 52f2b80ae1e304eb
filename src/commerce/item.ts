/** Commerce resources as the API reads them: the latest version, and one relation of it. */
import type { Sql } from '#database/pool.ts';
import { guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { collection, readPage } from '#hypermedia/page.ts';
import { parseId, shardOf } from '#kernel/ids.ts';
import { notFound } from '#kernel/problem.ts';
import { reachesStore } from '#kernel/principal.ts';
import { isResourceId, relationsOf, typeOfCollection } from './catalogue.ts';
import { addressOf, relationDocuments, resourceDocument, type Frozen } from './document.ts';
import { findResource } from './queries.ts';
import { readShape } from './shape.ts';

const findFrozen = async (sql: Sql, { params, principal }: ApiRequest<undefined>): Promise<Frozen> => {
  const storeId = parseId(params['store_id'] ?? '');
  const type = typeOfCollection(params['collection'] ?? '');
  const id = params['id'] ?? '';
  if (storeId === undefined || type === undefined || !reachesStore(principal, storeId)) throw notFound('resource');
  if (!isResourceId(id)) throw notFound(type.replaceAll('_', ' '));
  const stored = await findResource(sql, { shard: shardOf(storeId), storeId, type, id });
  if (stored === undefined) throw notFound(type.replaceAll('_', ' '));
  return { storeId, type, id, baseUrl: stored.baseUrl, body: stored.body };
};

export const createCommerceOperations = (deps: {
  sql: Sql;
  relationPrefix: string;
}): { read: Operation; relation: Operation } => ({
  read: guarded({
    summary: 'The latest version of this resource; zoom and fields shape it',
    handle: async (request) => {
      const frozen = await findFrozen(deps.sql, request);
      const document = resourceDocument(frozen, readShape(request.query.toString(), frozen.type));
      return { status: 200, document, naming: { baseUrl: frozen.baseUrl, relationPrefix: deps.relationPrefix } };
    },
  }),
  relation: guarded({
    summary: 'What this resource has under one of its relations',
    handle: async (request) => {
      const frozen = await findFrozen(deps.sql, request);
      const rel = request.params['relation'] ?? '';
      if (!Object.hasOwn(relationsOf(frozen.type), rel)) throw notFound('relation');
      const found = relationDocuments(frozen, rel) ?? { single: false, documents: [] };
      const [only] = found.documents;
      const path = `${addressOf(frozen)}/${rel}`;
      if (found.single && only !== undefined) {
        return {
          status: 200,
          document: { ...only, links: [{ rel: 'self', href: path, title: rel.replaceAll('_', ' ') }] },
        };
      }
      const page = readPage(request.query);
      const items = found.documents.slice(page.offset, page.offset + page.limit);
      const title = rel.replaceAll('_', ' ');
      const total = found.documents.length;
      return {
        status: 200,
        document: collection({ name: rel, rel, title, path, query: request.query, page, total, items }),
      };
    },
  }),
});
