/** SQL of links for signing up. Writes the table sign_up. */
import type { Queryable } from '#db/pool.ts';

export async function insertSignUp(
  sql: Queryable,
  signUp: { hash: Buffer; email: string; now: Date; expires: Date },
): Promise<void> {
  await sql`
    insert into sign_up (hash, email, date_created, date_expires)
    values (${signUp.hash}, ${signUp.email}, ${signUp.now}, ${signUp.expires})
  `;
}

/** Deletes the links of an address, of which its account no longer needs any. */
export async function deleteSignUps(sql: Queryable, email: string): Promise<void> {
  await sql`delete from sign_up where email = ${email}`;
}

/** Returns the address of a link; undefined if the link is unknown or expired. */
export async function findSignUp(sql: Queryable, hash: Buffer, now: Date): Promise<string | undefined> {
  const [row] = await sql<{ email: string }[]>`
    select email from sign_up where hash = ${hash} and date_expires > ${now}
  `;
  return row?.email;
}

/** Deletes a valid link and returns whether it existed. Of concurrent calls for one link, one returns true. */
export async function consumeSignUp(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  return (await sql`delete from sign_up where hash = ${hash} and date_expires > ${now} returning email`).length > 0;
}
