/**
 * The statements that delete what has had its time. Each finds its rows by an index, the oldest first, as an array: as a
 * join, the planner may read the whole table instead. A row that somebody holds is left for the next time.
 */
import type { Queryable } from '#db/pool.ts';

/** Codes that expired before. One that was never redeemed takes its grant along: nothing else ever hung on it. */
export const deleteCodes = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const [row] = await sql<{ count: number }[]>`
    with gone as (
      delete from authorization_code where hash = any(array(
        select hash from authorization_code where date_expires <= ${before}
        order by date_expires limit ${limit} for update skip locked
      ))
      returning grant_id, used_at
    ), orphaned as (
      delete from access_grant where id = any(array(select grant_id from gone where used_at is null))
    )
    select count(*) from gone
  `;
  return row?.count ?? 0;
};

export const deleteAccessTokens = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from access_token where hash = any(array(
      select hash from access_token where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
};

/** The one that was not rotated is the one its client still has: idle for a year, it takes the grant along. */
export const deleteRefreshTokens = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const [row] = await sql<{ count: number }[]>`
    with gone as (
      delete from refresh_token where hash = any(array(
        select hash from refresh_token where date_expires <= ${before}
        order by date_expires limit ${limit} for update skip locked
      ))
      returning grant_id, rotated_at
    ), idle as (
      delete from access_grant where id = any(array(select grant_id from gone where rotated_at is null))
    )
    select count(*) from gone
  `;
  return row?.count ?? 0;
};

/** With everything that hangs on them. */
export const deleteRevokedGrants = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from access_grant where id = any(array(
      select id from access_grant where date_revoked <= ${before}
      order by date_revoked limit ${limit} for update skip locked
    ))
  `;
  return count;
};

/** Grants of clients that were deleted, with everything that hangs on them. */
export const deleteGrantsOfDeletedClients = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from access_grant where id = any(array(
      select g.id from client c join access_grant g on g.client = c.id where c.date_deleted <= ${before}
      limit ${limit} for update of g skip locked
    ))
  `;
  return count;
};

/** Clients that were deleted and have no grant any more, with their secrets and logo. */
export const deleteDeletedClients = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from client where id = any(array(
      select id from client c where c.date_deleted <= ${before}
        and not exists (select from access_grant g where g.client = c.id)
      order by c.date_deleted limit ${limit} for update skip locked
    ))
  `;
  return count;
};

export const deleteClientSecrets = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from client_secret where hash = any(array(
      select hash from client_secret where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
};

/** Clients that waited for their first grant until now. No grant can be given to them until this transaction ends. */
export const lockUnusedClients = async (sql: Queryable, now: Date, limit: number): Promise<number[]> => {
  const rows = await sql<{ id: number }[]>`
    select id from client where unused_until <= ${now}
    order by unused_until limit ${limit} for update skip locked
  `;
  return rows.map(({ id }) => id);
};

/** Those that got one stay for good. */
export const keepUsedClients = async (sql: Queryable, ids: readonly number[]): Promise<void> => {
  await sql`
    update client set unused_until = null
    where id = any(${ids}::bigint[]) and exists (select from access_grant g where g.client = client.id)
  `;
};

export const deleteUnusedClients = async (sql: Queryable, ids: readonly number[]): Promise<number> => {
  const { count } = await sql`delete from client where id = any(${ids}::bigint[]) and unused_until is not null`;
  return count;
};

export const deleteRegistrationTokens = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from registration_token where hash = any(array(
      select hash from registration_token where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
};
