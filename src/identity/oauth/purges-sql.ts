/**
 * SQL that deletes expired rows of the authorization server. Each statement selects its rows by an index, oldest first, into
 * an array; with a join, the planner may read the whole table. Locked rows are skipped and deleted by a later run.
 */
import type { Queryable } from '#db/pool.ts';

/** Deletes expired codes. A code that was never redeemed is deleted with its grant, which has no tokens. */
export async function deleteCodes(sql: Queryable, before: Date, limit: number): Promise<number> {
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
}

export async function deleteAccessTokens(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from access_token where hash = any(array(
      select hash from access_token where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
}

/**
 * Deletes expired refresh tokens. A token that was not rotated is its grant's current one, so the idle grant is deleted
 * too.
 */
export async function deleteRefreshTokens(sql: Queryable, before: Date, limit: number): Promise<number> {
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
}

/** Deletes revoked grants with their codes and tokens. */
export async function deleteRevokedGrants(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from access_grant where id = any(array(
      select id from access_grant where date_revoked <= ${before}
      order by date_revoked limit ${limit} for update skip locked
    ))
  `;
  return count;
}

/** Deletes grants of deleted clients with their codes and tokens. */
export async function deleteGrantsOfDeletedClients(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from access_grant where id = any(array(
      select g.id from client c join access_grant g on g.client = c.id where c.date_deleted <= ${before}
      limit ${limit} for update of g skip locked
    ))
  `;
  return count;
}

/** Deletes clients marked as deleted that have no grants left, with their secrets and logo. */
export async function deleteDeletedClients(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from client where id = any(array(
      select id from client c where c.date_deleted <= ${before}
        and not exists (select from access_grant g where g.client = c.id)
      order by c.date_deleted limit ${limit} for update skip locked
    ))
  `;
  return count;
}

export async function deleteClientSecrets(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from client_secret where hash = any(array(
      select hash from client_secret where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
}

/**
 * Locks and returns clients whose deadline for a first grant has passed. The lock blocks new grants until the
 * transaction ends.
 */
export async function lockUnusedClients(sql: Queryable, now: Date, limit: number): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select id from client where unused_until <= ${now}
    order by unused_until limit ${limit} for update skip locked
  `;
  return rows.map(({ id }) => id);
}

/** Clears the deadline of the clients that have received a grant. */
export async function keepUsedClients(sql: Queryable, ids: readonly number[]): Promise<void> {
  await sql`
    update client set unused_until = null
    where id = any(${ids}::bigint[]) and exists (select from access_grant g where g.client = client.id)
  `;
}

export async function deleteUnusedClients(sql: Queryable, ids: readonly number[]): Promise<number> {
  const { count } = await sql`delete from client where id = any(${ids}::bigint[]) and unused_until is not null`;
  return count;
}

export async function deleteRegistrationTokens(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from registration_token where hash = any(array(
      select hash from registration_token where date_expires <= ${before}
      order by date_expires limit ${limit} for update skip locked
    ))
  `;
  return count;
}
