/**
 * SQL of accounts, of their identities at OpenID providers, of throttling and of the audit. Writes the tables users, session,
 * external_identity, throttle and audit, and has the purges of the expired rows of accounts.
 */
import { firstOf, hasRows, type Queryable, type Sql } from '#db/pool.ts';
import { purgesOf, type Purge } from '#db/purges.ts';
import type { Action, AuditEntry, Origin } from './audit.ts';

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

export function hasUsers(sql: Queryable): Promise<boolean> {
  return hasRows(sql`select from users limit 1`);
}

/** `isEmailVerified`: a person has received mail at the address, or the operator has given it. */
export type Credentials = {
  id: number;
  email: string;
  passwordHash: string;
  isDisabled: boolean;
  /** Why an operator has suspended the person; null for one who is not, or whom the command line has disabled. */
  disabledReason: string | null;
  isEmailVerified: boolean;
};

const credentials = (sql: Queryable) =>
  sql`email, password_hash as "passwordHash", date_disabled is not null as "isDisabled",
    disabled_reason as "disabledReason", is_email_verified as "isEmailVerified"`;

export function findUserByEmail(sql: Queryable, email: string): Promise<Credentials | undefined> {
  return firstOf(sql<Credentials[]>`
    select id, ${credentials(sql)} from users where email = ${email}
  `);
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
export function lockPassword(sql: Queryable, { id, passwordHash }: Pick<Credentials, 'id' | 'passwordHash'>) {
  return hasRows(sql`
    select id from users
    where id = ${id} and password_hash = ${passwordHash} and date_disabled is null
    for share
  `);
}

/** Locks a user. Every change of credentials or access starts with this lock, so that such changes are serialized. */
export function lockUser(sql: Queryable, id: number): Promise<Omit<Credentials, 'id'> | undefined> {
  return firstOf(sql<Omit<Credentials, 'id'>[]>`
    select ${credentials(sql)} from users where id = ${id} for no key update
  `);
}

export async function updatePassword(sql: Queryable, userId: number, passwordHash: string): Promise<void> {
  await sql`update users set password_hash = ${passwordHash}, has_password = true where id = ${userId}`;
}

/** Disables a user from `since`, or enables the user if `since` is null. Returns false if nothing changed. */
export function updateDisabled(sql: Queryable, userId: number, since: Date | null, reason: string | null = null) {
  return hasRows(sql`
    update users set date_disabled = ${since}, disabled_reason = ${reason}
    where id = ${userId} and (date_disabled is null) <> ${since === null}
    returning id
  `);
}

/** Locks all enabled people with the role of operator, in the order of their ids, and returns these. */
export async function lockOperators(sql: Queryable): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select id from users where is_operator and date_disabled is null order by id for no key update`;
  return rows.map(({ id }) => id);
}

/** Gives the role of operator to a user, or takes it. Returns false if nothing changed. */
export function updateOperator(sql: Queryable, userId: number, isOperator: boolean): Promise<boolean> {
  return hasRows(sql`
    update users set is_operator = ${isOperator} where id = ${userId} and is_operator <> ${isOperator} returning id
  `);
}

export function findCredentials(sql: Queryable, id: number): Promise<Credentials | undefined> {
  return firstOf(sql<Credentials[]>`
    select id, ${credentials(sql)} from users where id = ${id}
  `);
}

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
  /** The date of the oldest second factor; null without one. */
  factorSince: Date | null;
  isOperator: boolean;
};

/** Returns the user of a session; undefined if the session is unknown or expired, or its user is disabled. */
export function findSession(sql: Queryable, hash: Buffer, now: Date): Promise<SessionRow | undefined> {
  return firstOf(sql<SessionRow[]>`
    select s.user_id as "userId", u.email, u.is_email_verified as "isEmailVerified", s.date_created as "dateCreated",
      s.date_seen as "dateSeen", s.date_verified as "verifiedAt",
      least(
        (select date_created from authenticator_app where user_id = s.user_id),
        (select min(date_created) from passkey where user_id = s.user_id)
      ) as "factorSince", u.is_operator as "isOperator"
    from (select * from session where hash = ${hash} offset 0) as s
      cross join lateral (select * from users where id = s.user_id offset 0) as u
    where s.date_expires > ${now} and u.date_disabled is null
  `);
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

/** Deletes a session, also one of a link of the platform, and returns its user id; undefined if there was no such session. */
export async function deleteSession(sql: Queryable, hash: Buffer): Promise<number | undefined> {
  const [row] = await sql<{ userId: number }[]>`
    with portal as (delete from portal_session where hash = ${hash} and is_used returning user_id),
      whole as (delete from session where hash = ${hash} returning user_id)
    select user_id as "userId" from whole union all select user_id from portal`;
  return row?.userId;
}

export async function deleteSessionsOf(sql: Queryable, userId: number): Promise<void> {
  await sql`with portal as (delete from portal_session where user_id = ${userId}) delete from session where user_id = ${userId}`;
}

export type BrowserRow = {
  id: number;
  /** Whether it is the session of the hash. */
  isThis: boolean;
  /** Null for a session of an older version that was not used since. */
  address: string | null;
  userAgent: string | null;
  dateCreated: Date;
  dateSeen: Date;
};

/** Returns the sessions of a user, the one of `hash` first, then the latest used. */
export function listBrowsers(
  sql: Queryable,
  { userId, hash, now, limit }: { userId: number; hash: Buffer; now: Date; limit: number },
): Promise<BrowserRow[]> {
  return sql<BrowserRow[]>`
  select id, hash = ${hash} as "isThis", address, user_agent as "userAgent", date_created as "dateCreated",
    coalesce(date_seen, date_created) as "dateSeen"
  from session
  where user_id = ${userId} and date_expires > ${now}
  order by "isThis" desc, "dateSeen" desc, id desc limit ${limit}
`;
}

/** Deletes a session of the user and returns whether it existed. */
export function deleteSessionById(sql: Queryable, of: { id: number; userId: number }): Promise<boolean> {
  return hasRows(sql`delete from session where id = ${of.id} and user_id = ${of.userId} returning id`);
}

/** Deletes the sessions of a user except that of `hash`, and returns their number. */
export async function deleteOtherSessions(sql: Queryable, of: { userId: number; hash: Buffer }): Promise<number> {
  const { userId, hash } = of;
  const rows = await sql`
    with portal as (delete from portal_session where user_id = ${userId} returning is_used),
      whole as (delete from session where user_id = ${userId} and hash <> ${hash} returning id)
    select id from whole union all select null from portal where is_used`;
  return rows.length;
}

/** An account at a provider. The pair is unique and never changes (OpenID Connect Core §5.7). */
export type ExternalIdentity = { issuer: string; subject: string };

/** Links an identity to a user. Returns false if it is linked already, to this or another user. */
export function insertIdentity(
  sql: Queryable,
  { issuer, subject, userId, now }: ExternalIdentity & { userId: number; now: Date },
): Promise<boolean> {
  return hasRows(sql`
    insert into external_identity (id, issuer, subject, user_id, date_created, date_used)
    values (nextval('id_n'), ${issuer}, ${subject}, ${userId}, ${now}, ${now})
    on conflict (issuer, subject) do nothing
    returning id
  `);
}

/** Records a sign-in. Returns false if the identity is not linked to this user, or no longer. */
export function touchIdentity(
  sql: Queryable,
  { issuer, subject, userId, now }: ExternalIdentity & { userId: number; now: Date },
): Promise<boolean> {
  return hasRows(sql`
    update external_identity set date_used = ${now}
    where issuer = ${issuer} and subject = ${subject} and user_id = ${userId}
    returning id
  `);
}

export async function findUserOfIdentity(
  sql: Queryable,
  { issuer, subject }: ExternalIdentity,
): Promise<number | undefined> {
  const [row] = await sql<{ userId: number }[]>`
    select user_id as "userId" from external_identity where issuer = ${issuer} and subject = ${subject}
  `;
  return row?.userId;
}

export type LinkedIdentity = ExternalIdentity & { id: number; dateCreated: Date; dateUsed: Date };

export function listIdentities(sql: Queryable, userId: number): Promise<LinkedIdentity[]> {
  return sql<LinkedIdentity[]>`
    select id, issuer, subject, date_created as "dateCreated", date_used as "dateUsed"
    from external_identity where user_id = ${userId} order by id
  `;
}

/** Deletes an identity of a user and returns its issuer; undefined if the user has none of this id. */
export async function deleteIdentity(
  sql: Queryable,
  { userId, id }: { userId: number; id: number },
): Promise<string | undefined> {
  const [row] = await sql<{ issuer: string }[]>`
    delete from external_identity where id = ${id} and user_id = ${userId} returning issuer
  `;
  return row?.issuer;
}

/** Returns whether the person of an account knows a password of it. */
export function hasPassword(sql: Queryable, userId: number): Promise<boolean> {
  return hasRows(sql`select from users where id = ${userId} and has_password`);
}

export type KeyedBucket = { key: Buffer; tries: number; refillSeconds: number };

/**
 * Takes one try. Returns false, and writes nothing, if the bucket is empty; concurrent calls cannot take more than it
 * contains.
 */
export function takeOne(sql: Queryable, bucket: KeyedBucket, now: Date): Promise<boolean> {
  const { key, tries, refillSeconds } = bucket;
  return hasRows(sql`
    insert into throttle (key, full_at)
    values (${key}, ${now}::timestamptz + make_interval(secs => ${refillSeconds}))
    on conflict (key) do update
      set full_at = greatest(throttle.full_at, ${now}) + make_interval(secs => ${refillSeconds})
      where greatest(throttle.full_at, ${now}) + make_interval(secs => ${refillSeconds})
        <= ${now}::timestamptz + make_interval(secs => ${refillSeconds * tries})
    returning key
  `);
}

/** Returns when the bucket will be full again; undefined if it is full. */
export async function fullAt(sql: Queryable, { key }: KeyedBucket): Promise<Date | undefined> {
  const [row] = await sql<{ fullAt: Date }[]>`select full_at as "fullAt" from throttle where key = ${key}`;
  return row?.fullAt;
}

export async function giveBack(sql: Queryable, { key, refillSeconds }: KeyedBucket): Promise<void> {
  await sql`
    update throttle set full_at = full_at - make_interval(secs => ${refillSeconds}) where key = ${key}
  `;
}

export async function insertAuditEntry(sql: Queryable, entry: AuditEntry): Promise<void> {
  const { action, userId, client = null, storeId = null, origin, detail = {}, now } = entry;
  await sql`
    insert into audit (id, action, user_id, client, store_id, address, user_agent, detail, date_created)
    values (nextval('id_n'), ${action}, ${userId}, ${client}, ${storeId}, ${origin?.address ?? null},
      ${origin?.userAgent ?? null}, ${sql.json(detail)}, ${now})
  `;
}

export type AuditRow = {
  id: number;
  action: string;
  /** The name of the app concerned: the name recorded in the entry, otherwise the current name. */
  app: string | null;
  storeId: number | null;
  address: string | null;
  userAgent: string | null;
  dateCreated: Date;
};

/**
 * Actions that a stranger who knows the e-mail address, or the password, can cause. Performed by the operator (no address), they are
 * listed like other entries.
 */
const TRIES = ['sign_in_failed', 'password_reset_requested', 'second_factor_failed'] satisfies Action[];

/**
 * Returns the audit entries of a user, latest first; with `before`, only those older than that entry. Without `hasTries` they have no
 * TRIES.
 */
export function latestAuditEntries(
  sql: Queryable,
  of: { userId: number; before: number | undefined; limit: number; hasTries: boolean },
): Promise<AuditRow[]> {
  return sql<AuditRow[]>`
  select a.id, a.action, coalesce(a.detail->>'client', a.detail->>'name', c.name) as app,
    a.store_id as "storeId", a.address, a.user_agent as "userAgent", a.date_created as "dateCreated"
  from audit a left join client c on c.id = a.client
  where a.user_id = ${of.userId} and a.id < ${of.before ?? Number.MAX_SAFE_INTEGER}
    and ${of.hasTries ? sql`true` : sql`(a.action <> all(${TRIES}) or a.address is null)`}
  order by a.id desc limit ${of.limit}
`;
}

/** Returns the places from which a user has signed in, of the latest `limit` entries. */
export function listSignIns(sql: Queryable, userId: number, limit: number): Promise<Origin[]> {
  return sql<Origin[]>`
  select distinct address, user_agent as "userAgent"
  from (
    select action, address, user_agent from audit where user_id = ${userId} order by id desc limit ${limit}
  ) as latest
  where action = 'signed_in' and address is not null
`;
}

export type TriesRow = Omit<AuditRow, 'id' | 'app' | 'storeId'> & { times: number };

/** Returns the number of TRIES of each kind since a time, with the latest of each. */
export function countTries(sql: Queryable, userId: number, since: Date): Promise<TriesRow[]> {
  return sql<TriesRow[]>`
  select distinct on (action) action, address, user_agent as "userAgent", date_created as "dateCreated",
    count(*) over (partition by action)::int as times
  from audit
  where user_id = ${userId} and action = any(${TRIES}) and address is not null and date_created > ${since}
  order by action desc, id desc
`;
}

const DAY_MS = 86_400_000;

/** A throttle bucket without a row is full. */
export function createAccountPurges({ sql, auditKeptDays }: { sql: Sql; auditKeptDays: number }): readonly Purge[] {
  return purgesOf(sql, [
    { name: 'sessions', deletes: 'session', key: 'hash', expires: 'date_expires' },
    { name: 'portal_sessions', deletes: 'portal_session', key: 'hash', expires: 'date_expires' },
    { name: 'used_challenges', deletes: 'used_challenge', key: 'hash', expires: 'date_expires' },
    { name: 'password_resets', deletes: 'password_reset', key: 'hash', expires: 'date_expires' },
    { name: 'email_changes', deletes: 'email_change', key: 'hash', expires: 'date_undo_expires' },
    { name: 'sign_ups', deletes: 'sign_up', key: 'hash', expires: 'date_expires' },
    { name: 'throttle_buckets', deletes: 'throttle', key: 'key', expires: 'full_at' },
    { name: 'audit_entries', deletes: 'audit', key: 'id', expires: 'date_created', keptMs: auditKeptDays * DAY_MS },
  ]);
}
