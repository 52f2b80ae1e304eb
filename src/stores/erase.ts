/** The end of a store: what is small goes at once, what is big is left for housekeeping, and nobody reaches any of it. */
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { deleteMembers, deleteStore, insertErased, lockForErasure } from './erase-sql.ts';

type Asked = Pick<ApiRequest, 'address' | 'headers' | 'now'>;

/**
 * Erases what another room keeps of a store, in the transaction that it is given; answers what is left to do after the
 * commit.
 */
export type EraseTheirs = (
  tx: Tx,
  store: { shard: number; storeId: number },
  by: Asked,
) => Promise<(() => Promise<void>) | undefined>;

/**
 * One transaction: it commits and no address of the store answers any more, or nothing happened. Members go before the
 * grants: an approval holds its membership, so what it is about to grant is there to be ended when they are gone. Throws a
 * 404 where there is no such store.
 */
export const eraseStore = async (
  sql: Sql,
  { shard, storeId, eraseTheirs }: { shard: number; storeId: number; eraseTheirs: readonly EraseTheirs[] },
  request: Asked & Pick<ApiRequest, 'unmodified'>,
): Promise<void> => {
  const afterwards = await transaction(sql, async (tx) => {
    const revision = await lockForErasure(tx, shard, storeId);
    if (revision === undefined) throw notFound('store');
    request.unmodified(revision);
    await deleteMembers(tx, shard, storeId);
    const left = [];
    for (const erase of eraseTheirs) left.push(await erase(tx, { shard, storeId }, request));
    await insertErased(tx, { shard, storeId, now: request.now });
    await deleteStore(tx, shard, storeId);
    return left;
  });
  for (const finish of afterwards) await finish?.();
};
