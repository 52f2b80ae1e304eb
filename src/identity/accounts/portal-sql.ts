/** SQL of the links with which the platform lets members into the pages of one store, and of their sessions. Writes the table portal_session. */
import type { Queryable } from '#db/pool.ts';

type Member = { userId: number; storeId: number };

/** Inserts a link, and deletes the unused ones of the member except the newest `kept`. */
export async function insertPortalLink(
  sql: Queryable,
  link: Member & { hash: Buffer; client: number; now: Date; expires: Date; kept: number },
): Promise<void> {
  const { hash, userId, storeId, client, now, expires, kept } = link;
  await sql`
    insert into portal_session (hash, user_id, store_id, client, date_created, date_expires)
    values (${hash}, ${userId}, ${storeId}, ${client}, ${now}, ${expires})`;
  await sql`
    delete from portal_session where hash in (
      select hash from portal_session where user_id = ${userId} and store_id = ${storeId} and not is_used
      order by date_created desc, hash offset ${kept}
    )`;
}

export type PortalRow = Member & {
  email: string;
  storeName: string;
  isSandbox: boolean;
  isFramed: boolean;
  /** The internal id of the client that made the link. */
  client: number;
};

/**
 * Returns the link or session with this hash; undefined if it is unknown or expired, the person, the store or the client is suspended, the
 * person's address is not verified, or the store requires a second factor.
 */
async function findPortal(
  sql: Queryable,
  { hash, isUsed, now }: { hash: Buffer; isUsed: boolean; now: Date },
): Promise<PortalRow | undefined> {
  const [row] = await sql<PortalRow[]>`
    select p.user_id as "userId", p.store_id as "storeId", u.email, s.name as "storeName",
      s.sandbox_of is not null as "isSandbox", p.is_framed as "isFramed", p.client
    from (select * from portal_session where hash = ${hash} offset 0) as p
      cross join lateral (select email, is_email_verified, date_disabled from users where id = p.user_id offset 0) as u
      cross join lateral (
        select name, sandbox_of, second_factor, suspended_reason from store
        where shard = p.shard and id = p.store_id offset 0
      ) as s
      cross join lateral (select trusted, date_deleted, suspended_reason from client where id = p.client offset 0) as c
    where p.is_used = ${isUsed} and p.date_expires > ${now} and u.date_disabled is null and u.is_email_verified
      and s.suspended_reason is null and s.second_factor <> 'required'
      and c.trusted and c.date_deleted is null and c.suspended_reason is null`;
  return row;
}

export function findPortalLink(sql: Queryable, hash: Buffer, now: Date): Promise<PortalRow | undefined> {
  return findPortal(sql, { hash, isUsed: false, now });
}

export function findPortalSession(sql: Queryable, hash: Buffer, now: Date): Promise<PortalRow | undefined> {
  return findPortal(sql, { hash, isUsed: true, now });
}

/** Deletes an unused link; of concurrent calls for one link, one returns true. */
export async function deletePortalLink(sql: Queryable, hash: Buffer): Promise<boolean> {
  return (await sql`delete from portal_session where hash = ${hash} and not is_used returning user_id`).length > 0;
}

/** Makes a valid link the session with another hash. Of concurrent calls for one link, one returns true. */
export async function usePortalLink(
  sql: Queryable,
  link: { hash: Buffer; session: Buffer; isFramed: boolean; now: Date; expires: Date },
): Promise<boolean> {
  const rows = await sql`
    update portal_session
    set hash = ${link.session}, is_used = true, is_framed = ${link.isFramed}, date_expires = ${link.expires}
    where hash = ${link.hash} and not is_used and date_expires > ${link.now}
    returning user_id`;
  return rows.length > 0;
}

/** Returns the number of a person's sessions that links have begun. */
export async function countPortalSessions(sql: Queryable, userId: number, now: Date): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from portal_session where user_id = ${userId} and is_used and date_expires > ${now}`;
  return row?.total ?? 0;
}
