/** Erases a store: small tables at once, large ones later by purges; all data is inaccessible immediately. */
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { deleteMembers, deleteStore, insertErased, lockForErasure } from './erase-sql.ts';

type ErasureRequest = Pick<ApiRequest, 'address' | 'headers' | 'now'>;

/**
 * Erases the data that another module stores for a store, in the given transaction. May return a function to run after the
 * commit.
 */
export type Eraser = (
  tx: Tx,
  store: { shard: number; storeId: number },
  by: ErasureRequest,
) => Promise<(() => Promise<void>) | undefined>;

/**
 * Erases a store in one transaction. Members are deleted before grants: an approval locks its membership, so a grant that is
 * being approved exists when the grants are ended. Throws a 404 if the store does not exist.
 */
export async function eraseStore(
  sql: Sql,
  { shard, storeId, erasers }: { shard: number; storeId: number; erasers: readonly Eraser[] },
  request: ErasureRequest & Pick<ApiRequest, 'unmodified'>,
): Promise<void> {
  const afterCommit = await transaction(sql, async (tx) => {
    const revision = await lockForErasure(tx, shard, storeId);
    if (revision === undefined) throw notFound('store');
    request.unmodified(revision);
    await deleteMembers(tx, shard, storeId);
    const callbacks = [];
    for (const erase of erasers) callbacks.push(await erase(tx, { shard, storeId }, request));
    await insertErased(tx, { shard, storeId, now: request.now });
    await deleteStore(tx, shard, storeId);
    return callbacks;
  });
  for (const finish of afterCommit) await finish?.();
}
