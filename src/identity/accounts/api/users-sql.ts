/** SQL that lists and erases users for the platform. */
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import type { UserRow } from '../accounts-sql.ts';
import type { USER_PROPERTIES } from './document.ts';

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
