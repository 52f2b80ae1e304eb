/** SQL of the signed-in browsers of a user: lists their sessions, and deletes single ones. */
import type { Queryable } from '#db/pool.ts';

export type BrowserRow = {
  id: number;
  /** Whether it is the session of the hash. */
  isThis: boolean;
  /** Null for a session of an older version that was not used since. */
  address: string | null;
  userAgent: string | null;
  since: Date;
  lastSeen: Date;
};

/** Returns the sessions of a user, the one of `hash` first, then the latest used. */
export function listBrowsers(
  sql: Queryable,
  { userId, hash, now, limit }: { userId: number; hash: Buffer; now: Date; limit: number },
): Promise<BrowserRow[]> {
  return sql<BrowserRow[]>`
  select id, hash = ${hash} as "isThis", address, user_agent as "userAgent", date_created as since,
    coalesce(date_seen, date_created) as "lastSeen"
  from session
  where user_id = ${userId} and date_expires > ${now}
  order by "isThis" desc, "lastSeen" desc, id desc limit ${limit}
`;
}

/** Deletes a session of the user and returns whether it existed. */
export async function deleteSessionById(sql: Queryable, of: { id: number; userId: number }): Promise<boolean> {
  return (await sql`delete from session where id = ${of.id} and user_id = ${of.userId} returning id`).length > 0;
}

/** Deletes the sessions of a user except that of `hash`, and returns their number. */
export async function deleteOtherSessions(sql: Queryable, of: { userId: number; hash: Buffer }): Promise<number> {
  return (await sql`delete from session where user_id = ${of.userId} and hash <> ${of.hash} returning id`).length;
}
