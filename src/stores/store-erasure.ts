/** Erases a store: small tables at once, large ones later by purges; all data is inaccessible immediately. */
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { deleteKeysOf } from '#http/external-keys-sql.ts';
import { notFound } from '#core/problem.ts';
import { deleteMembers, deleteStore, insertErased, lockForErasure } from './stores-sql.ts';

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

type Erased = { shard: number; storeId: number; erasers: readonly Eraser[] };

/**
 * Erases a store in a transaction, and returns the functions to run after the commit. Members are deleted before grants: an approval
 * locks its membership, so a grant that is being approved exists when the grants are ended. `check` is called with the revision of
 * the locked store. Throws a 404 if the store does not exist.
 */
export async function eraseStoreIn(
  tx: Tx,
  { shard, storeId, erasers }: Erased,
  request: ErasureRequest,
  check?: ApiRequest['unmodified'],
): Promise<Awaited<ReturnType<Eraser>>[]> {
  const revision = await lockForErasure(tx, shard, storeId);
  if (revision === undefined) throw notFound('store');
  check?.(revision);
  await deleteMembers(tx, shard, storeId);
  const callbacks = [];
  for (const erase of erasers) callbacks.push(await erase(tx, { shard, storeId }, request));
  await deleteKeysOf(tx, { resource: 'store', ids: [storeId] });
  await insertErased(tx, { shard, storeId, now: request.now });
  await deleteStore(tx, shard, storeId);
  return callbacks;
}

/** Erases a store in one transaction. Throws a 404 if the store does not exist. */
export async function eraseStore(
  sql: Sql,
  store: Erased,
  request: ErasureRequest & Pick<ApiRequest, 'unmodified'>,
): Promise<void> {
  const afterCommit = await transaction(sql, (tx) => eraseStoreIn(tx, store, request, request.unmodified));
  for (const finish of afterCommit) await finish?.();
}
