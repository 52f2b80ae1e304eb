/** SQL of registration tokens. Writes the table registration_token; purges-sql.ts deletes expired rows. */
import type { Queryable } from '#db/pool.ts';

export async function insertRegistrationToken(
  sql: Queryable,
  token: { hash: Buffer; now: Date; expires: Date },
): Promise<void> {
  await sql`
    insert into registration_token (hash, date_created, date_expires)
    values (${token.hash}, ${token.now}, ${token.expires})
  `;
}

/** Deletes a token by its id, the beginning of its hash in hex; returns false if there is none. */
export async function deleteRegistrationToken(sql: Queryable, id: string): Promise<boolean> {
  const { count } = await sql`
    delete from registration_token where encode(substring(hash from 1 for length(${id}) / 2), 'hex') = ${id}
      and length(${id}) = 16
  `;
  return count > 0;
}

export async function isRegistrationToken(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  const rows = await sql`
    select from registration_token
    where hash = ${hash}
      and date_expires > ${now}
  `;
  return rows.length === 1;
}
