/** The statements of registration: the table registration_token is written here, and emptied by housekeeping. */
import type { Queryable } from '#db/pool.ts';

export const insertRegistrationToken = async (
  sql: Queryable,
  token: { hash: Buffer; now: Date; expires: Date },
): Promise<void> => {
  await sql`
    insert into registration_token (hash, date_created, date_expires)
    values (${token.hash}, ${token.now}, ${token.expires})
  `;
};

/** By the beginning of its hash, in hex; false where there is none. */
export const deleteRegistrationToken = async (sql: Queryable, mark: string): Promise<boolean> => {
  const { count } = await sql`
    delete from registration_token where encode(substring(hash from 1 for length(${mark}) / 2), 'hex') = ${mark}
      and length(${mark}) = 16
  `;
  return count > 0;
};

export const isRegistrationToken = async (sql: Queryable, hash: Buffer, now: Date): Promise<boolean> => {
  const rows = await sql`
    select from registration_token
    where hash = ${hash}
      and date_expires > ${now}
  `;
  return rows.length === 1;
};
