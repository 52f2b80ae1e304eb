/**
 * The statements that delete what has had its time. Each finds its rows by an index, the oldest first, as an array: as a
 * join, the planner may read the whole table instead. A row that somebody holds is left for the next time.
 */
import type { Queryable } from '#database/pool.ts';

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

export const deleteClientSecrets = async (sql: Queryable, before: Date, limit: number): Promise<number> => {
  const { count } = await sql`
    delete from client_secret where hash = any(array(
      select hash from client_secret where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
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
