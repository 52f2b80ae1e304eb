/** Which store a request is about. */
import type { Queryable } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { storeOfAddress } from '#core/principal.ts';
import { findStore, type StoreRow } from './stores-sql.ts';

type Asked = Pick<ApiRequest, 'params' | 'principal'>;

/** Throws a 404 where there is none, too. */
export const storeOf = async (sql: Queryable, asked: Asked): Promise<StoreRow> => {
  const { shard, storeId } = storeOfAddress(asked);
  const store = await findStore(sql, shard, storeId);
  if (store === undefined) throw notFound('store');
  return store;
};
