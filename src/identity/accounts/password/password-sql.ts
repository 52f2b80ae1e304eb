/** SQL of password reset links. Writes the table password_reset. */
import type { Queryable } from '#db/pool.ts';

export async function insertReset(
  sql: Queryable,
  reset: { hash: Buffer; userId: number; now: Date; expires: Date },
): Promise<void> {
  await sql`
    insert into password_reset (hash, user_id, date_created, date_expires)
    values (${reset.hash}, ${reset.userId}, ${reset.now}, ${reset.expires})
  `;
}

/** Returns the user of a link; undefined if the link is unknown or expired, or its user is disabled. */
export async function findReset(
  sql: Queryable,
  hash: Buffer,
  now: Date,
): Promise<{ userId: number; email: string; isEmailVerified: boolean } | undefined> {
  const [row] = await sql<{ userId: number; email: string; isEmailVerified: boolean }[]>`
    select r.user_id as "userId", u.email, u.is_email_verified as "isEmailVerified"
    from password_reset r join users u on u.id = r.user_id
    where r.hash = ${hash} and r.date_expires > ${now} and u.date_disabled is null
  `;
  return row;
}

/** Deletes a valid link and returns whether it existed. Of concurrent calls for one link, one returns true. */
export async function consumeReset(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  const rows = await sql`delete from password_reset where hash = ${hash} and date_expires > ${now} returning user_id`;
  return rows.length > 0;
}

/** Deletes a user's links except the newest `kept`. */
export async function deleteOlderResets(
  sql: Queryable,
  { userId, kept }: { userId: number; kept: number },
): Promise<void> {
  await sql`
    delete from password_reset where hash in (
      select hash from password_reset where user_id = ${userId} order by date_created desc, hash offset ${kept}
    )
  `;
}

export async function deleteResetsOf(sql: Queryable, userId: number): Promise<void> {
  await sql`delete from password_reset where user_id = ${userId}`;
}
