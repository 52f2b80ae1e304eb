/** Stores: how they come to be, and who belongs to them. */
import type { Queryable } from '#database/pool.ts';
import { idOf, shardOf } from '#kernel/ids.ts';
import { invalid, notFound } from '#kernel/problem.ts';
import { deleteMember, insertStore, listMemberships, nextNumber, upsertMember, type Role } from './queries.ts';
import { readTimeZone, shardOfNumber, storeFaults, type StoreDetails } from './rules.ts';

/** A new store on a shard of its own choosing. Throws a 400 with one entry for each detail that cannot be. */
export const createStore = async (sql: Queryable, store: StoreDetails & { now: Date }): Promise<{ id: number }> => {
  const faults = storeFaults(store);
  if (faults.length > 0) throw invalid(...faults);
  const n = await nextNumber(sql);
  const shard = shardOfNumber(n);
  const id = idOf(n, shard);
  const timeZone = readTimeZone(store.timeZone) ?? store.timeZone;
  await insertStore(sql, { ...store, shard, id, timeZone, domain: store.domain.toLowerCase() });
  return { id };
};

/** Makes a user a member of a store, or changes the role of one. Throws a 404 where either does not exist. */
export const addMember = async (
  sql: Queryable,
  member: { storeId: number; userId: number; role: Role; now: Date },
): Promise<void> => {
  if (!(await upsertMember(sql, { ...member, shard: shardOf(member.storeId) }))) throw notFound('store or user');
};

/**
 * Takes a user out of a store; what they have allowed apps there stops counting at the next request, and comes back with
 * them. Throws a 404 where they are no member.
 */
export const removeMember = async (sql: Queryable, member: { storeId: number; userId: number }): Promise<void> => {
  if (!(await deleteMember(sql, { ...member, shard: shardOf(member.storeId) }))) throw notFound('member');
};

/** The stores somebody is a member of, and those of them that they own. */
export const membershipsOf = async (sql: Queryable, userId: number): Promise<{ stores: number[]; owned: number[] }> => {
  const rows = await listMemberships(sql, userId);
  const owned = rows.filter(({ role }) => role === 'owner').map(({ storeId }) => storeId);
  return { stores: rows.map(({ storeId }) => storeId), owned };
};
