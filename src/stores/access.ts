/** Which store a request is about. */
import type { Queryable } from '#database/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { parseId, shardOf } from '#kernel/ids.ts';
import { notFound } from '#kernel/problem.ts';
import { reachesStore } from '#kernel/principal.ts';
import { findStore, type StoreRow } from './queries.ts';

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

/** The store of the address. Throws a 404 where the caller does not reach it. */
export const keyOf = ({ params, principal }: Asked): { shard: number; storeId: number } => {
  const storeId = parseId(params['store_id'] ?? '');
  if (storeId === undefined || !reachesStore(principal, storeId)) throw notFound('store');
  return { shard: shardOf(storeId), storeId };
};

/** Throws a 404 where there is none, too. */
export const storeOf = async (sql: Queryable, asked: Asked): Promise<StoreRow> => {
  const { shard, storeId } = keyOf(asked);
  const store = await findStore(sql, shard, storeId);
  if (store === undefined) throw notFound('store');
  return store;
};
