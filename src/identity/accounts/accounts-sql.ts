/** SQL of accounts. Writes the tables users and session; purges-sql.ts deletes their expired rows. */
import type { Queryable } from '#db/pool.ts';
import type { Origin } from './audit/audit.ts';

/**
 * Inserts a user and returns its id; undefined if the e-mail address is taken, or is the former one of a user
 * who can still take it back.
 */
export async function insertUser(
  sql: Queryable,
  user: { email: string; passwordHash: string; hasPassword?: boolean; isEmailVerified: boolean; now: Date },
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    insert into users (id, email, password_hash, has_password, is_email_verified, date_created)
    select nextval('id_n'), ${user.email}, ${user.passwordHash}, ${user.hasPassword ?? true}::boolean,
      ${user.isEmailVerified}::boolean, ${user.now}::timestamptz
    where not exists (
      select from email_change
      where old_email = ${user.email} and date_changed is not null and date_undo_expires > ${user.now}
    )
    on conflict do nothing
    returning id
  `;
  return row?.id;
}

export type UserRow = { id: number; email: string; isEmailVerified: boolean; dateCreated: Date };

export async function findUser(sql: Queryable, id: number): Promise<UserRow | undefined> {
  const [row] = await sql<UserRow[]>`
    select id, email, is_email_verified as "isEmailVerified", date_created as "dateCreated" from users where id = ${id}
  `;
  return row;
}

export async function hasUsers(sql: Queryable): Promise<boolean> {
  return (await sql`select from users limit 1`).length > 0;
}

/** `isEmailVerified`: a person has received mail at the address, or the operator has given it. */
export type Credentials = {
  id: number;
  email: string;
  passwordHash: string;
  isDisabled: boolean;
  isEmailVerified: boolean;
};

const credentials = (sql: Queryable) =>
  sql`email, password_hash as "passwordHash", date_disabled is not null as "isDisabled",
    is_email_verified as "isEmailVerified"`;

export async function findUserByEmail(sql: Queryable, email: string): Promise<Credentials | undefined> {
  const [row] = await sql<Credentials[]>`
    select id, ${credentials(sql)} from users where email = ${email}
  `;
  return row;
}

/**
 * Locks the enabled user with this address against everything until the transaction ends, and returns its id; undefined if there is
 * none, or its address is verified.
 */
export async function lockUnverified(sql: Queryable, email: string): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    select id from users where email = ${email} and not is_email_verified and date_disabled is null
    for update
  `;
  return row?.id;
}

/**
 * Locks the user until the transaction ends and returns whether the password hash is still the verified one, so that no
 * session starts with a password that is being changed concurrently.
 */
export async function lockPassword(
  sql: Queryable,
  { id, passwordHash }: Pick<Credentials, 'id' | 'passwordHash'>,
): Promise<boolean> {
  const rows = await sql`
    select id from users
    where id = ${id} and password_hash = ${passwordHash} and date_disabled is null
    for share
  `;
  return rows.length > 0;
}

/** Locks a user. Every change of credentials or access starts with this lock, so that such changes are serialized. */
export async function lockUser(sql: Queryable, id: number): Promise<Omit<Credentials, 'id'> | undefined> {
  const [row] = await sql<Omit<Credentials, 'id'>[]>`
    select ${credentials(sql)} from users where id = ${id} for no key update
  `;
  return row;
}

export async function updatePassword(sql: Queryable, userId: number, passwordHash: string): Promise<void> {
  await sql`update users set password_hash = ${passwordHash}, has_password = true where id = ${userId}`;
}

/** Disables a user from `since`, or enables the user if `since` is null. Returns false if nothing changed. */
export async function updateDisabled(sql: Queryable, userId: number, since: Date | null): Promise<boolean> {
  const rows = await sql`
    update users set date_disabled = ${since}
    where id = ${userId} and (date_disabled is null) <> ${since === null}
    returning id
  `;
  return rows.length > 0;
}

export async function findCredentials(sql: Queryable, id: number): Promise<Credentials | undefined> {
  const [row] = await sql<Credentials[]>`
    select id, ${credentials(sql)} from users where id = ${id}
  `;
  return row;
}

/** Inserts a session of a person who has just been verified. */
export async function insertSession(
  sql: Queryable,
  session: { hash: Buffer; userId: number; origin: Origin; now: Date; expires: Date },
): Promise<void> {
  const { hash, userId, origin, now, expires } = session;
  await sql`
    insert into session (hash, user_id, address, user_agent, date_created, date_expires, date_verified)
    values (${hash}, ${userId}, ${origin.address}, ${origin.userAgent}, ${now}, ${expires}, ${now})
  `;
}

/** Records that the person of a session was verified again. */
export async function verifySession(sql: Queryable, hash: Buffer, now: Date): Promise<void> {
  await sql`update session set date_verified = ${now} where hash = ${hash}`;
}

type SessionRow = {
  userId: number;
  email: string;
  isEmailVerified: boolean;
  dateCreated: Date;
  dateSeen: Date | null;
  verifiedAt: Date | null;
  hasFactor: boolean;
};

/** Returns the user of a session; undefined if the session is unknown or expired, or its user is disabled. */
export async function findSession(sql: Queryable, hash: Buffer, now: Date): Promise<SessionRow | undefined> {
  const [row] = await sql<SessionRow[]>`
    select s.user_id as "userId", u.email, u.is_email_verified as "isEmailVerified", s.date_created as "dateCreated",
      s.date_seen as "dateSeen", s.date_verified as "verifiedAt",
      exists (select from authenticator_app where user_id = s.user_id)
        or exists (select from passkey where user_id = s.user_id) as "hasFactor"
    from (select * from session where hash = ${hash} offset 0) as s
      cross join lateral (select * from users where id = s.user_id offset 0) as u
    where s.date_expires > ${now} and u.date_disabled is null
  `;
  return row;
}

/** Records a use of a session, and extends it. An ended session stays ended, also if it ends concurrently. */
export async function updateSeen(
  sql: Queryable,
  hash: Buffer,
  seen: { origin: Origin; now: Date; expires: Date },
): Promise<void> {
  const { origin, now, expires } = seen;
  await sql`
    update session
    set date_seen = ${now}, address = ${origin.address}, user_agent = ${origin.userAgent}, date_expires = ${expires}
    where hash = ${hash} and date_expires > ${now}
  `;
}

/** Deletes a session and returns its user id; undefined if there was no such session. */
export async function deleteSession(sql: Queryable, hash: Buffer): Promise<number | undefined> {
  const [row] = await sql<{ userId: number }[]>`delete from session where hash = ${hash} returning user_id as "userId"`;
  return row?.userId;
}

export async function deleteSessionsOf(sql: Queryable, userId: number): Promise<void> {
  await sql`delete from session where user_id = ${userId}`;
}

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
