/** Reads the store of the address of a request. */
import type { Queryable } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { findStore, type StoreRow } from './stores-sql.ts';

type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the store of the address. Throws a 404 if it does not exist or the caller has no access to it. */
export async function storeOf(sql: Queryable, request: AddressedRequest): Promise<StoreRow> {
  const { shard, storeId } = storeOfAddress(request);
  const store = await findStore(sql, shard, storeId);
  if (store === undefined) throw notFound('store');
  return store;
}
