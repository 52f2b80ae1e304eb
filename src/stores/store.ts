/** Creates stores and memberships, and reads the store of a request. */
import { idOf, shardOf } from '#core/ids.ts';
import { invalid, notFound } from '#core/problem.ts';
import { lockStoreRow, lockUserRow, insertMember, lockMember, updateRole } from './members/members-sql.ts';
import { insertStore, listMemberships, nextNumber, findStore, type StoreRow } from './stores-sql.ts';
import type { Role } from './members/member.ts';
import { readTimeZone, shardOfNumber, storeFaults, type StoreDetails } from './store-fields.ts';
import type { Queryable } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { platformClient, storeOfAddress, suspensionsOf, type Suspensions } from '#core/principal.ts';

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
  if (!(await lockStoreRow(sql, key)) || !(await lockUserRow(sql, member.userId))) throw notFound('store or user');
  if (await insertMember(sql, key)) return null;
  const current = await lockMember(sql, key);
  // Removed concurrently between the two statements; the caller may repeat the command.
  if (current === undefined) throw notFound('member');
  await updateRole(sql, key);
  return current.role;
}

/** A store in the navigation of pages. */
export type NamedStore = { name: string; isSandbox: boolean };
type Memberships = {
  stores: number[];
  owned: number[];
  guarded: number[];
  suspended: Suspensions;
  names: ReadonlyMap<number, NamedStore>;
};

/** Returns the stores of a user, those that the user owns, require a second factor or are suspended, and their names. */
export async function membershipsOf(sql: Queryable, userId: number): Promise<Memberships> {
  const rows = await listMemberships(sql, userId);
  const owned = rows.filter(({ role }) => role === 'owner').map(({ storeId }) => storeId);
  const names = new Map(rows.map(({ storeId, name, isSandbox }) => [storeId, { name, isSandbox }]));
  const guarded = rows.filter(({ requiresFactor }) => requiresFactor).map(({ storeId }) => storeId);
  return { stores: [...names.keys()], owned, guarded, suspended: suspensionsOf(rows), names };
}

/** Returns the memberships of a user for the export of the account. */
export function exportedMemberships({ stores, owned, names }: Memberships) {
  return stores.map((id) => ({
    store_id: id,
    store: names.get(id)?.name,
    is_sandbox: names.get(id)?.isSandbox,
    role: owned.includes(id) ? 'owner' : 'member',
  }));
}

type AddressedRequest = Pick<ApiRequest, 'params' | 'principal'>;

/** Returns the store of the address. Throws a 404 if it does not exist or the caller has no access to it. */
export async function storeOf(sql: Queryable, request: AddressedRequest): Promise<StoreRow> {
  const { shard, storeId } = storeOfAddress(request);
  const store = await findStore(sql, { shard, storeId }, platformClient(request.principal));
  if (store === undefined) throw notFound('store');
  return store;
}
