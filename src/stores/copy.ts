/** Copies a store of the home database to the database of its shard, with the changes that follow there. */
import type { Queryable, Tx } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { lockCopy, readStoreRow, upsertCopy } from './copy-sql.ts';
import { deleteStore, insertErased } from './erase-sql.ts';

type Store = { shard: number; storeId: number };

export type CopyDeps = {
  home: Queryable;
  /** Called after the domain has changed, after the time zone has changed, and before the store is deleted. */
  onDomainChanged: (tx: Tx, store: Store) => Promise<unknown>;
  onTimeZoneChanged: (tx: Tx, store: Store) => Promise<unknown>;
  onErased: (tx: Tx, store: Store) => Promise<unknown>;
};

/** Makes the copy equal to the store as it is now; a later change is copied again. An erased store is erased here too. */
export async function copyStore(tx: Tx, storeId: number, deps: CopyDeps & { now: Date }): Promise<void> {
  const store = { shard: shardOf(storeId), storeId };
  const before = await lockCopy(tx, store);
  // Read under the lock of the copy.
  const row = await readStoreRow(deps.home, store);
  if (row === undefined) {
    if (before === undefined) return;
    await deps.onErased(tx, store);
    await insertErased(tx, { ...store, now: deps.now });
    return deleteStore(tx, store.shard, storeId);
  }
  const after = await upsertCopy(tx, row);
  if (before === undefined || after === undefined) return;
  if (before.timeZone !== after.timeZone) await deps.onTimeZoneChanged(tx, store);
  if (before.domain !== after.domain) await deps.onDomainChanged(tx, store);
}
