/** The statements of accounts: the tables users and session are written here and nowhere else. */
import type { Queryable } from '#database/pool.ts';

/** The new user's id; undefined where the e-mail is taken, in whatever case it is written. */
export const insertUser = async (
  sql: Queryable,
  user: { email: string; passwordHash: string; now: Date },
): Promise<number | undefined> => {
  const [row] = await sql<{ id: number }[]>`
    insert into users (id, email, password_hash, date_created)
    values (nextval('id_n'), ${user.email}, ${user.passwordHash}, ${user.now})
    on conflict (lower(email)) do nothing
    returning id
  `;
  return row?.id;
};

export const findUserByEmail = async (
  sql: Queryable,
  email: string,
): Promise<{ id: number; passwordHash: string } | undefined> => {
  const [row] = await sql<{ id: number; passwordHash: string }[]>`
    select id, password_hash as "passwordHash" from users where lower(email) = lower(${email})
  `;
  return row;
};

export const insertSession = async (
  sql: Queryable,
  session: { hash: Buffer; userId: number; now: Date; expires: Date },
): Promise<void> => {
  await sql`
    insert into session (hash, user_id, date_created, date_expires)
    values (${session.hash}, ${session.userId}, ${session.now}, ${session.expires})
  `;
};

/** Whose session it is; undefined where there is none or it has expired. */
export const findSession = async (
  sql: Queryable,
  hash: Buffer,
  now: Date,
): Promise<{ userId: number; email: string } | undefined> => {
  const [row] = await sql<{ userId: number; email: string }[]>`
    select s.user_id as "userId", u.email
    from session s join users u on u.id = s.user_id
    where s.hash = ${hash} and s.date_expires > ${now}
  `;
  return row;
};

export const deleteSession = async (sql: Queryable, hash: Buffer): Promise<void> => {
  await sql`delete from session where hash = ${hash}`;
};
