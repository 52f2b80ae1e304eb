/** Stores: how they come to be, and who belongs to them. */
import type { Queryable } from '#db/pool.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { invalid, notFound } from '#core/problem.ts';
import { holdStore, holdUser, insertMember, lockMember, updateRole } from './members/members-sql.ts';
import { insertStore, listMemberships, nextNumber, type Role } from './stores-sql.ts';
import { readTimeZone, shardOfNumber, storeFaults, type StoreDetails } from './rules.ts';

/** What has to be said of a new store; the rest has its default. */
export type NewStore = Omit<StoreDetails, 'subscriptionEvents'> & Partial<StoreDetails>;

/** A new store on a shard of its own choosing. Throws a 400 with one entry for each detail that cannot be. */
export const createStore = async (sql: Queryable, given: NewStore & { now: Date }): Promise<{ id: number }> => {
  const store = { ...given, subscriptionEvents: given.subscriptionEvents ?? 'derived' };
  const faults = storeFaults(store);
  if (faults.length > 0) throw invalid(...faults);
  const n = await nextNumber(sql);
  const shard = shardOfNumber(n);
  const id = idOf(n, shard);
  const timeZone = readTimeZone(store.timeZone) ?? store.timeZone;
  await insertStore(sql, { ...store, shard, id, timeZone, domain: store.domain.toLowerCase() });
  return { id };
};

/**
 * Makes a user a member of a store, or changes the role of one; answers the role that they had. Throws a 404 where store or
 * user does not exist.
 */
export const addMember = async (
  sql: Queryable,
  member: { storeId: number; userId: number; role: Role; now: Date },
): Promise<Role | null> => {
  const key = { ...member, shard: shardOf(member.storeId) };
  if (!(await holdStore(sql, key)) || !(await holdUser(sql, member.userId))) throw notFound('store or user');
  if (await insertMember(sql, key)) return null;
  const present = await lockMember(sql, key);
  // Taken out by somebody else between the two statements: to run the command again is the way.
  if (present === undefined) throw notFound('member');
  await updateRole(sql, key);
  return present.role;
};

type Memberships = { stores: number[]; owned: number[]; names: ReadonlyMap<number, string> };

/** The stores somebody is a member of, those of them that they own, and how they are called. */
export const membershipsOf = async (sql: Queryable, userId: number): Promise<Memberships> => {
  const rows = await listMemberships(sql, userId);
  const owned = rows.filter(({ role }) => role === 'owner').map(({ storeId }) => storeId);
  const names = new Map(rows.map(({ storeId, name }) => [storeId, name]));
  return { stores: [...names.keys()], owned, names };
};
