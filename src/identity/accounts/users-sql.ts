/** SQL that reads, lists and erases users, and exports what belongs to one. */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import { firstOf, hasRows, totalOf, type Fragment, type Queryable } from '#db/pool.ts';
import { keyExpression } from '#http/external-keys-sql.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import { userFields } from './users.ts';

export type UserRow = RowOf<typeof userFields> & {
  email: string;
  /** Increases with each change of the address and of an `external_id`. */
  revision: number;
  /** Whether the platform has set the address of an account that a person uses, and the person has not confirmed it. */
  isEmailOfPlatform: boolean;
};

const columns = columnsOf(userFields, 'users');

/** `reader`: the client of the platform whose keys of users the rows have; null for other callers. */
type Reader = number | null;

/** Returns the expression of the key that the reader has given to a user. */
const keyOfUser = (sql: Queryable, reader: Reader): Fragment =>
  keyExpression(sql, { client: reader, resource: 'user', id: sql`users.id` });

const userColumns = (sql: Queryable, reader: Reader): Fragment =>
  sql`${columns.selected(sql, { external_id: keyOfUser(sql, reader) })}, email, revision,
    is_email_of_platform as "isEmailOfPlatform"`;

export function findUser(sql: Queryable, id: number, reader: Reader = null): Promise<UserRow | undefined> {
  return firstOf(sql<UserRow[]>`select ${userColumns(sql, reader)} from users where id = ${id}`);
}

/** Increases the revision of a user whose `external_id` changes. */
export async function touchUser(sql: Queryable, id: number): Promise<void> {
  await sql`update users set revision = revision + 1 where id = ${id}`;
}

/** Returns whether no person can sign in to an account yet: it has no password, no identity at a provider and no passkey. */
export function isUnclaimed(sql: Queryable, id: number): Promise<boolean> {
  return hasRows(sql`
    select from users where id = ${id} and not has_password
      and not exists (select from external_identity where user_id = users.id)
      and not exists (select from passkey where user_id = users.id)
  `);
}

const compared = (sql: Queryable, reader: Reader) =>
  columns.compared(sql, { email: sql`users.email`, external_id: keyOfUser(sql, reader) });

/** The users of a list: all, or those with these ids. */
export type Shown = { ids: readonly number[] | undefined; reader: Reader };

const shown = (sql: Queryable, { ids }: Shown) => (ids === undefined ? sql`true` : sql`id = any(${ids}::bigint[])`);

export function listUsers(sql: Queryable, of: Shown, listing: Listing): Promise<UserRow[]> {
  const by = compared(sql, of.reader);
  return sql<UserRow[]>`
  select ${userColumns(sql, of.reader)} from users
  where ${shown(sql, of)}${narrowed(sql, listing.filters, by)}
  order by ${ordered(sql, listing.order, by, [sql`id`])} ${paged(sql, listing)}
`;
}

export function countUsers(sql: Queryable, of: Shown, { filters }: Listing): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total from users where ${shown(sql, of)}${narrowed(sql, filters, compared(sql, of.reader))}
  `);
}

/**
 * Locks a user against inserts of dependent rows until the transaction ends and returns the revision; undefined if there is no such
 * user.
 */
export async function lockForErasure(sql: Queryable, id: number): Promise<number | undefined> {
  const [row] = await sql<{ revision: number }[]>`select revision from users where id = ${id} for update`;
  return row?.revision;
}

/**
 * Locks and returns the user's memberships. A membership whose concurrent removal commits first is not returned.
 */
export function lockMemberships(sql: Queryable, userId: number): Promise<{ storeId: number; role: string }[]> {
  return sql<{ storeId: number; role: string }[]>`
    select store_id as "storeId", role from membership where user_id = ${userId} order by shard, store_id for update
  `;
}

/** Deletes a user and, by foreign keys, the user's sessions, password resets, memberships and grants. */
export async function deleteUser(sql: Queryable, id: number): Promise<void> {
  await sql`delete from users where id = ${id}`;
}

type Owner = { storeId: number; userId: number };

/** Returns the owners of the stores that the user owns, except sandbox stores, which need no owner. */
const ownersBeside = (sql: Queryable, userId: number) => sql`
  select m.store_id as "storeId", m.user_id as "userId"
  from membership m
  where m.role = 'owner'
    and (m.shard, m.store_id) in (select shard, store_id from membership where user_id = ${userId} and role = 'owner')
    and not exists (select from store s where s.shard = m.shard and s.id = m.store_id and s.sandbox_of is not null)
  order by m.shard, m.store_id, m.user_id`;

const soleStores = (owners: readonly Owner[]): number[] =>
  [...Map.groupBy(owners, ({ storeId }) => storeId)].flatMap(([storeId, { length }]) =>
    length === 1 ? [storeId] : [],
  );

/** `hasMembers`: another member could become an owner. */
export type SoleStore = { id: number; name: string; hasMembers: boolean };

/** Returns the stores of which the user is the only owner. */
export async function listSoleStores(sql: Queryable, userId: number): Promise<SoleStore[]> {
  const ids = soleStores(await sql<Owner[]>`${ownersBeside(sql, userId)}`);
  return sql<SoleStore[]>`
    select s.id, s.name, exists (
        select from membership where shard = s.shard and store_id = s.id and user_id <> ${userId}
      ) as "hasMembers"
    from store s where s.shard = any(${ids.map((id) => id % 256)}::smallint[]) and s.id = any(${ids}::bigint[])
    order by s.name, s.id`;
}

/**
 * Returns whether the user is the only owner of a store. Locks all owners of the user's stores in one order until the transaction
 * ends, so that the last two owners cannot leave a store concurrently.
 */
export async function lockSoleOwnership(sql: Queryable, userId: number): Promise<boolean> {
  return soleStores(await sql<Owner[]>`${ownersBeside(sql, userId)} for no key update of m`).length > 0;
}
