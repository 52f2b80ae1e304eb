/** SQL that lists and erases users, and exports what belongs to one. */
import { narrowed, ordered, paged, type Columns } from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import type { UserRow } from './accounts-sql.ts';
import type { USER_PROPERTIES } from './users-api.ts';

const columns = (sql: Queryable): Columns<typeof USER_PROPERTIES> => ({
  id: sql`id`,
  email: sql`email`,
  is_email_verified: sql`is_email_verified`,
  date_created: sql`date_created`,
});

export function listUsers(sql: Queryable, listing: Listing): Promise<UserRow[]> {
  return sql<UserRow[]>`
  select id, email, is_email_verified as "isEmailVerified", date_created as "dateCreated" from users
  where true${narrowed(sql, listing.filters, columns(sql))}
  order by ${ordered(sql, listing.order, columns(sql), [sql`id`])} ${paged(sql, listing)}
`;
}

export async function countUsers(sql: Queryable, { filters }: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from users where true${narrowed(sql, filters, columns(sql))}
  `;
  return row?.total ?? 0;
}

/**
 * Locks a user against inserts of dependent rows until the transaction ends and returns the date of creation; undefined if
 * there is no such user.
 */
export async function lockForErasure(sql: Queryable, id: number): Promise<Date | undefined> {
  const [row] = await sql<{ dateCreated: Date }[]>`
    select date_created as "dateCreated" from users where id = ${id} for update
  `;
  return row?.dateCreated;
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

type ExportedEntry = {
  action: string;
  app: string | null;
  storeId: number | null;
  address: string | null;
  userAgent: string | null;
  dateCreated: Date;
};

/** Returns the latest audit entries of a user, also those that a stranger caused. */
export function listExportedEntries(sql: Queryable, userId: number, limit: number): Promise<ExportedEntry[]> {
  return sql<ExportedEntry[]>`
    select a.action, coalesce(a.detail->>'client', a.detail->>'name', c.name) as app, a.store_id as "storeId", a.address,
      a.user_agent as "userAgent", a.date_created as "dateCreated"
    from audit a left join client c on c.id = a.client
    where a.user_id = ${userId} order by a.id desc limit ${limit}
  `;
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
