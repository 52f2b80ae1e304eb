/** Reads the collection and the resource from the address of a request. */
import type { Queryable, Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { ApiRequest } from '#http/operation.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound, Problem } from '#core/problem.ts';
import { callingApp, reachesStore, storeOfAddress, type Permission, type Principal } from '#core/principal.ts';
import type { Params } from '#http/route.ts';
import {
  canBeDeleted,
  isResourceId,
  OPERATOR_EVENT,
  scopedTypes,
  typeOfCollection,
  labelOf,
  readScopeOf,
  type ResourceType,
} from './catalog.ts';
import type { AppChange } from './internal-types.ts';
import { findDeletion, timeZonesOf, type ResourceKey } from './catalog-sql.ts';

/** Returns the limited scopes that suffice to read resources; at an address only that of its type, which includes what is embedded. */
export function resourceScopes() {
  return {
    scopes: ['store_read', ...scopedTypes().map(readScopeOf)],
    scopesAt: ({ collection = '' }: Params): readonly Permission[] => {
      const type = typeOfCollection(collection);
      return type === undefined ? ['store_read'] : ['store_read', readScopeOf(type)];
    },
  } as const;
}

type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the collection of the address. Throws a 404 if it does not exist or the caller has no access to it. */
export function collectionKeyOf({ params, principal }: AddressedRequest): Omit<ResourceKey, 'id'> {
  const storeId = parseId(params['store_id'] ?? '');
  const type = typeOfCollection(params['collection'] ?? '');
  if (storeId === undefined || type === undefined || !reachesStore(principal, storeId)) throw notFound('collection');
  if (type === OPERATOR_EVENT && callingApp(principal) !== null) throw notFound('collection');
  return { shard: shardOf(storeId), storeId, type };
}

/** Returns the time zone of the store of the address; undefined if it does not exist. Throws a 404 without access to it. */
export async function zoneOf(sql: Pick<Sql, 'reads'>, request: AddressedRequest): Promise<string | undefined> {
  const { storeId } = storeOfAddress(request);
  return (await timeZonesOf(sql.reads, [storeId])).get(storeId);
}

/** Returns the client_id of the only app whose changes of access the caller reads: an app reads its own. Null if it reads all. */
export function visibleAppOf(principal: Principal): string | null {
  return callingApp(principal)?.clientId ?? null;
}

/** Returns whether the caller may see a published resource and its events. `body` is empty if it was erased. */
export function isVisible(principal: Principal, { type, body }: { type: ResourceType; body: string }): boolean {
  if (type === OPERATOR_EVENT) return callingApp(principal) === null;
  const clientId = type === 'app' ? visibleAppOf(principal) : null;
  return clientId === null || (body !== '' && (JSON.parse(body) as AppChange).client_id === clientId);
}

export function resourceNotFound(type: ResourceType) {
  return notFound(labelOf(type));
}

/** Returns the 410 for a resource that the platform has deleted, or else the 404 for one that does not exist. */
export async function resourceMissing(sql: Queryable, key: ResourceKey): Promise<Problem> {
  const deletion = canBeDeleted(key.type) ? await findDeletion(sql, key) : undefined;
  if (deletion === undefined) return resourceNotFound(key.type);
  const date = formatDate(deletion.dateDeleted, deletion.timeZone);
  return new Problem(410, { code: 'deleted', message: `This ${labelOf(key.type)} was deleted at ${date}` });
}

/** Returns the key of the resource of the address, which may not exist. Throws a 404 if the id is invalid. */
export function resourceKeyOf(request: AddressedRequest): ResourceKey {
  const collection = collectionKeyOf(request);
  const id = request.params['id'] ?? '';
  if (!isResourceId(id)) throw resourceNotFound(collection.type);
  return { ...collection, id };
}
