/** Which store a request is about. */
import type { Queryable } from '#database/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#kernel/problem.ts';
import { storeOfAddress } from '#kernel/principal.ts';
import { findStore, type StoreRow } from './queries.ts';

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

/** Throws a 404 where there is none, too. */
export const storeOf = async (sql: Queryable, asked: Asked): Promise<StoreRow> => {
  const { shard, storeId } = storeOfAddress(asked);
  const store = await findStore(sql, shard, storeId);
  if (store === undefined) throw notFound('store');
  return store;
};
