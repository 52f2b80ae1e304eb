/**
 * SQL of links that are used once: those that are mailed (writes the tables password_reset, sign_up and email_change, and the address in
 * users), and those with which the platform lets members into the pages of one store (writes portal_session).
 */
import { firstOf, hasRows, totalOf, type Queryable } from '#db/pool.ts';

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
export function findReset(sql: Queryable, hash: Buffer, now: Date) {
  return firstOf(sql<{ userId: number; email: string; isEmailVerified: boolean }[]>`
    select r.user_id as "userId", u.email, u.is_email_verified as "isEmailVerified"
    from password_reset r join users u on u.id = r.user_id
    where r.hash = ${hash} and r.date_expires > ${now} and u.date_disabled is null
  `);
}

/** Deletes a valid link and returns whether it existed. Of concurrent calls for one link, one returns true. */
export function consumeReset(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  return hasRows(sql`delete from password_reset where hash = ${hash} and date_expires > ${now} returning user_id`);
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
export function findSignUp(sql: Queryable, hash: Buffer, now: Date): Promise<{ email: string } | undefined> {
  return firstOf(sql<{ email: string }[]>`
    select email from sign_up where hash = ${hash} and date_expires > ${now}
  `);
}

/** Deletes a valid link and returns whether it existed. Of concurrent calls for one link, one returns true. */
export function consumeSignUp(sql: Queryable, hash: Buffer, now: Date): Promise<boolean> {
  return hasRows(sql`delete from sign_up where hash = ${hash} and date_expires > ${now} returning email`);
}

export type EmailChange = {
  userId: number;
  oldEmail: string;
  newEmail: string;
};

export async function insertEmailChange(
  sql: Queryable,
  change: EmailChange & { hash: Buffer; undoHash: Buffer; now: Date; expires: Date; undoExpires: Date },
): Promise<void> {
  const { hash, undoHash, userId, oldEmail, newEmail, now, expires, undoExpires } = change;
  await sql`
    insert into email_change (hash, undo_hash, user_id, old_email, new_email, date_created, date_expires, date_undo_expires)
    values (${hash}, ${undoHash}, ${userId}, ${oldEmail}, ${newEmail}, ${now}, ${expires}, ${undoExpires})
  `;
}

/** Returns the changes of a user that were requested or can still be undone, the latest first; `dateChanged` is null for a request. */
export function listEmailChanges(sql: Queryable, userId: number) {
  return sql<(Pick<EmailChange, 'oldEmail' | 'newEmail'> & { dateCreated: Date; dateChanged: Date | null })[]>`
    select old_email as "oldEmail", new_email as "newEmail", date_created as "dateCreated", date_changed as "dateChanged"
    from email_change where user_id = ${userId} order by date_created desc`;
}

/** Deletes the requests of a user that were not confirmed: only the latest link makes a change. */
export async function deletePendingChanges(sql: Queryable, userId: number): Promise<void> {
  await sql`delete from email_change where user_id = ${userId} and date_changed is null`;
}

/** Returns the change that a link of the user makes; undefined if the link is unknown, used or expired. */
export function findPendingChange(sql: Queryable, of: { hash: Buffer; userId: number; now: Date }) {
  return firstOf(sql<EmailChange[]>`
    select user_id as "userId", old_email as "oldEmail", new_email as "newEmail"
    from email_change
    where hash = ${of.hash} and user_id = ${of.userId} and date_changed is null and date_expires > ${of.now}
  `);
}

/** Marks a change as made. Of concurrent calls for one link, one returns true. */
export function consumePendingChange(sql: Queryable, of: { hash: Buffer; now: Date; undoExpires: Date }) {
  return hasRows(sql`
    update email_change set date_changed = ${of.now}, date_undo_expires = ${of.undoExpires}
    where hash = ${of.hash} and date_changed is null and date_expires > ${of.now}
    returning user_id
  `);
}

export type UndoableChange = EmailChange & { isMade: boolean };

/** Returns the change that a link to the former address cancels or undoes; undefined if it is unknown, used or expired. */
export function findUndoableChange(sql: Queryable, undoHash: Buffer, now: Date): Promise<UndoableChange | undefined> {
  return firstOf(sql<UndoableChange[]>`
    select user_id as "userId", old_email as "oldEmail", new_email as "newEmail", date_changed is not null as "isMade"
    from email_change where undo_hash = ${undoHash} and date_undo_expires > ${now}
  `);
}

/**
 * Deletes a change and all later ones of its user: the links that later owners of the account were mailed must not take the address
 * back. Earlier ones stay. Returns false if the change was undone concurrently.
 */
export function deleteChangesFrom(sql: Queryable, undoHash: Buffer): Promise<boolean> {
  return hasRows(sql`
    delete from email_change e using email_change undone
    where undone.undo_hash = ${undoHash} and e.user_id = undone.user_id and e.date_created >= undone.date_created
    returning e.user_id
  `);
}

/**
 * Stores a new address, and whether the user reads its mail. Returns false if another user has the address or had
 * it so lately that the change can be undone; throws `23505` if another user gets it concurrently.
 */
export function updateEmail(
  sql: Queryable,
  change: { userId: number; email: string; isVerified?: boolean; isOfPlatform?: boolean; now: Date },
): Promise<boolean> {
  const { userId, email, isVerified = true, isOfPlatform = false, now } = change;
  return hasRows(sql`
    update users set email = ${email}, is_email_verified = ${isVerified}, is_email_of_platform = ${isOfPlatform},
      revision = revision + 1
    where id = ${userId}
      and not exists (select from users other where other.email = ${email} and other.id <> ${userId})
      and not exists (
        select from email_change e
        where e.old_email = ${email} and e.user_id <> ${userId} and e.date_changed is not null
          and e.date_undo_expires > ${now}
      )
    returning id
  `);
}

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
  /** Frames may contain the pages. */
  isFramed: boolean;
  /** The internal id of the client that made the link. */
  client: number;
};

/**
 * Returns the link or session with this hash; undefined if it is unknown or expired, the person, the store or the client is suspended, the
 * person's address is not verified, or the store requires a second factor.
 */
export function findPortal(sql: Queryable, { hash, isUsed, now }: { hash: Buffer; isUsed: boolean; now: Date }) {
  return firstOf(sql<PortalRow[]>`
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
      and c.trusted and c.date_deleted is null and c.suspended_reason is null`);
}

/** Deletes an unused link; of concurrent calls for one link, one returns true. */
export function deletePortalLink(sql: Queryable, hash: Buffer): Promise<boolean> {
  return hasRows(sql`delete from portal_session where hash = ${hash} and not is_used returning user_id`);
}

/** Makes a valid link the session with another hash. Of concurrent calls for one link, one returns true. */
export function usePortalLink(
  sql: Queryable,
  link: { hash: Buffer; session: Buffer; isFramed: boolean; now: Date; expires: Date },
): Promise<boolean> {
  return hasRows(sql`
    update portal_session
    set hash = ${link.session}, is_used = true, is_framed = ${link.isFramed}, date_expires = ${link.expires}
    where hash = ${link.hash} and not is_used and date_expires > ${link.now}
    returning user_id`);
}

/** Returns the number of a person's sessions that links have begun. */
export function countPortalSessions(sql: Queryable, userId: number, now: Date): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total from portal_session where user_id = ${userId} and is_used and date_expires > ${now}`);
}
