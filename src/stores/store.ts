/** Creates a store with its members, copies it to the database of its shard, and erases it. */
import { idOf, shardOf, type StoreKey } from '#core/ids.ts';
import { invalid, notFound } from '#core/problem.ts';
import { type Queryable, transaction, type Sql, type Tx } from '#db/pool.ts';
import type { ApiRequest, AddressedRequest } from '#http/operation.ts';
import { platformClient, storeOfAddress } from '#core/principal.ts';
import { deleteKeysOf } from '#http/external-keys-sql.ts';
import { lockMembersOf, lockUserRow, insertMember, lockMember, updateRole } from './members/members-sql.ts';
import {
  insertStore,
  nextNumber,
  findStore,
  type StoreRow,
  deleteMembers,
  deleteStore,
  insertErased,
  lockForErasure,
  lockCopy,
  readStoreRow,
  upsertCopy,
} from './stores-sql.ts';
import type { Role } from './members/member.ts';
import { readTimeZone, shardOfNumber, storeFaults, type StoreDetails } from './store-document.ts';

/** Details of a new store, of which some have defaults. `sandboxOf`: its developer, if it is a sandbox. */
export type NewStore = Omit<StoreDetails, 'subscriptionEvents' | 'secondFactor' | 'externalId'> &
  Partial<StoreDetails> & { sandboxOf?: number };

/** Creates a store and chooses its shard. Throws a 400 with one fault for each invalid detail. */
export async function createStore(sql: Queryable, details: NewStore & { now: Date }): Promise<{ id: number }> {
  const { subscriptionEvents = 'derived', secondFactor = 'optional', externalId = null, sandboxOf = null } = details;
  const store = { ...details, subscriptionEvents, secondFactor, externalId, sandboxOf };
  const faults = storeFaults(store);
  if (faults.length > 0) throw invalid(...faults);
  const n = await nextNumber(sql);
  const shard = shardOfNumber(n);
  const id = idOf(n, shard);
  const timeZone = readTimeZone(store.timeZone) ?? store.timeZone;
  await insertStore(sql, { ...store, shard, id, timeZone, domain: store.domain.toLowerCase() });
  return { id };
}

/**
 * Adds a user to a store, or changes the role of a member; returns the previous role. Throws a 404 if store or user does not
 * exist.
 */
export async function addMember(
  sql: Queryable,
  member: { storeId: number; userId: number; role: Role; now: Date },
): Promise<Role | null> {
  const key = { ...member, shard: shardOf(member.storeId) };
  if (!(await lockMembersOf(sql, key)) || !(await lockUserRow(sql, member.userId))) throw notFound('store or user');
  if (await insertMember(sql, key)) return null;
  const current = await lockMember(sql, key);
  // Removed concurrently between the two statements; the caller may repeat the command.
  if (current === undefined) throw notFound('member');
  await updateRole(sql, key);
  return current.role;
}

/** Returns the store of the address. Throws a 404 if it does not exist or the caller has no access to it. */
export async function storeOf(sql: Queryable, request: AddressedRequest): Promise<StoreRow> {
  const { shard, storeId } = storeOfAddress(request);
  const store = await findStore(sql, { shard, storeId }, platformClient(request.principal));
  if (store === undefined) throw notFound('store');
  return store;
}

type ErasureRequest = Pick<ApiRequest, 'address' | 'headers' | 'now'>;

/** Erases the data that another module stores for a store, in the given transaction. */
export type Eraser = (tx: Tx, store: StoreKey, by: ErasureRequest) => Promise<void>;

type Erased = StoreKey & { erasers: readonly Eraser[] };

/** Locks the apps that declare webhooks of a store. */
export type LockAppsOf = (tx: Queryable, storeId: number) => Promise<void>;

/**
 * Erases a store in a transaction. Members are deleted before grants: an approval locks its membership, so a grant that is being approved exists when the grants are ended. `check` is called with the revision of
 * the locked store. Throws a 404 if the store does not exist.
 */
export async function eraseStoreIn(
  tx: Tx,
  { shard, storeId, erasers }: Erased,
  request: ErasureRequest,
  check?: ApiRequest['unmodified'],
): Promise<void> {
  const revision = await lockForErasure(tx, shard, storeId);
  if (revision === undefined) throw notFound('store');
  check?.(revision);
  await deleteMembers(tx, shard, storeId);
  for (const erase of erasers) await erase(tx, { shard, storeId }, request);
  await deleteKeysOf(tx, { resource: 'store', ids: [storeId] });
  await insertErased(tx, { shard, storeId, now: request.now });
  await deleteStore(tx, shard, storeId);
}

/** Erases a store in one transaction. Throws a 404 if the store does not exist. */
export async function eraseStore(
  sql: Sql,
  { lockAppsOf, ...store }: Erased & { lockAppsOf: LockAppsOf },
  request: ErasureRequest & Pick<ApiRequest, 'unmodified'>,
): Promise<void> {
  await transaction(sql, async (tx) => {
    await lockAppsOf(tx, store.storeId);
    await eraseStoreIn(tx, store, request, request.unmodified);
  });
}

export type CopyDeps = {
  home: Queryable;
  /** Called after the domain has changed, after the time zone has changed, and before the store is deleted. */
  onDomainChanged: (tx: Tx, store: StoreKey) => Promise<void>;
  onTimeZoneChanged: (tx: Tx, store: StoreKey) => Promise<unknown>;
  onErased: (tx: Tx, store: StoreKey, by: { now: Date }) => Promise<void>;
};

/** Makes the copy equal to the store as it is now; a later change is copied again. An erased store is erased here too. */
export async function copyStore(tx: Tx, storeId: number, deps: CopyDeps & { now: Date }): Promise<void> {
  const store = { shard: shardOf(storeId), storeId };
  const before = await lockCopy(tx, store);
  // The store of the home database is read while the copy is locked.
  const row = await readStoreRow(deps.home, store);
  if (row === undefined) {
    if (before === undefined) return;
    await deps.onErased(tx, store, deps);
    await insertErased(tx, { ...store, now: deps.now });
    await deleteStore(tx, store.shard, storeId);
    return;
  }
  const after = await upsertCopy(tx, row);
  if (before === undefined || after === undefined) return;
  if (before.timeZone !== after.timeZone) await deps.onTimeZoneChanged(tx, store);
  if (before.domain !== after.domain) await deps.onDomainChanged(tx, store);
}
