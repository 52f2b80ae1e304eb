/** Which collection and which resource a request is about. */
import type { ApiRequest } from '#http/operation.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { reachesStore } from '#core/principal.ts';
import { isResourceId, typeOfCollection, wordsOf, type ResourceType } from './catalog.ts';
import type { ResourceKey } from './catalog-sql.ts';

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

/** The collection of the address. Throws a 404 where there is none, or the caller does not reach its store. */
export const collectionKeyOf = ({ params, principal }: Asked): Omit<ResourceKey, 'id'> => {
  const storeId = parseId(params['store_id'] ?? '');
  const type = typeOfCollection(params['collection'] ?? '');
  if (storeId === undefined || type === undefined || !reachesStore(principal, storeId)) throw notFound('collection');
  return { shard: shardOf(storeId), storeId, type };
};

export const noSuch = (type: ResourceType) => notFound(wordsOf(type));

/** The resource of the address, which may not exist. Throws a 404 where it cannot. */
export const resourceKeyOf = (asked: Asked): ResourceKey => {
  const collection = collectionKeyOf(asked);
  const id = asked.params['id'] ?? '';
  if (!isResourceId(id)) throw noSuch(collection.type);
  return { ...collection, id };
};
