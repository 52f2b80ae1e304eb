/** Reads the collection and the resource from the address of a request. */
import type { ApiRequest } from '#http/operation.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound } from '#core/problem.ts';
import { reachesStore } from '#core/principal.ts';
import { isResourceId, typeOfCollection, labelOf, type ResourceType } from './catalog.ts';
import type { ResourceKey } from './catalog-sql.ts';

type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the collection of the address. Throws a 404 if it does not exist or the caller has no access to its store. */
export function collectionKeyOf({ params, principal }: AddressedRequest): Omit<ResourceKey, 'id'> {
  const storeId = parseId(params['store_id'] ?? '');
  const type = typeOfCollection(params['collection'] ?? '');
  if (storeId === undefined || type === undefined || !reachesStore(principal, storeId)) throw notFound('collection');
  return { shard: shardOf(storeId), storeId, type };
}

export function resourceNotFound(type: ResourceType) {
  return notFound(labelOf(type));
}

/** Returns the key of the resource of the address, which may not exist. Throws a 404 if the id is invalid. */
export function resourceKeyOf(request: AddressedRequest): ResourceKey {
  const collection = collectionKeyOf(request);
  const id = request.params['id'] ?? '';
  if (!isResourceId(id)) throw resourceNotFound(collection.type);
  return { ...collection, id };
}
