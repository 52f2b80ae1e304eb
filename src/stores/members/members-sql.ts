/** The statements of memberships, and of those that wait for the first sign-in of their person. */
import { LOCKS } from '#db/advisory-lock.ts';
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import { memberFields, type Role, awaitedFields, type Identity } from './member.ts';
import type { StoreKey } from '#core/ids.ts';

const fields = columnsOf(memberFields, 'm');

export type MemberRow = RowOf<typeof memberFields> & {
  storeId: number;
  email: string;
  /** Time zone of the store. */
  timeZone: string;
};

type Key = StoreKey & { userId: number };

const members = (sql: Queryable, { shard, storeId }: StoreKey) => sql`
  select ${fields.selected(sql, { is_email_verified: sql`u.is_email_verified` })}, m.store_id as "storeId", u.email,
    s.time_zone as "timeZone"
  from membership m join store s on s.shard = m.shard and s.id = m.store_id join users u on u.id = m.user_id
  where m.shard = ${shard} and m.store_id = ${storeId}`;

export async function findMember(sql: Queryable, key: Key): Promise<MemberRow | undefined> {
  const [row] = await sql<MemberRow[]>`${members(sql, key)} and m.user_id = ${key.userId}`;
  return row;
}

/** Returns the member and locks the row until the transaction ends. */
export async function lockMember(sql: Queryable, key: Key): Promise<MemberRow | undefined> {
  const [row] = await sql<MemberRow[]>`${members(sql, key)} and m.user_id = ${key.userId} for no key update of m`;
  return row;
}

export function listMembers(sql: Queryable, store: StoreKey, listing: Listing): Promise<MemberRow[]> {
  return sql<MemberRow[]>`
  ${members(sql, store)}${narrowed(sql, listing.filters, fields.compared(sql, {}))}
  order by ${ordered(sql, listing.order, fields.compared(sql, {}), [sql`m.user_id`])} ${paged(sql, listing)}`;
}

export async function countMembers(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { filters }: Pick<Listing, 'filters'> = { filters: [] },
): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from membership m
    where m.shard = ${shard} and m.store_id = ${storeId}${narrowed(sql, filters, fields.compared(sql, {}))}`;
  return row?.total ?? 0;
}

/**
 * Returns whether the store has another owner. Locks all its owners in one order until the transaction ends, so that two owners
 * cannot remove each other concurrently.
 */
export async function hasOtherOwner(sql: Queryable, { shard, storeId, userId }: Key): Promise<boolean> {
  const rows = await sql<{ userId: number }[]>`
    select user_id as "userId" from membership
    where shard = ${shard} and store_id = ${storeId} and role = 'owner' order by user_id for no key update`;
  return rows.some((row) => row.userId !== userId);
}

/** Returns the id of the user with this id or e-mail address; undefined if there is none, or its address is not verified. */
export async function findVerifiedUser(
  sql: Queryable,
  { id, email }: { id: number | null; email: string | null },
): Promise<number | undefined> {
  const [row] = await sql<{ id: number }[]>`
    select id from users where (id = ${id} or email = ${email}) and is_email_verified`;
  return row?.id;
}

/**
 * Locks the members of the store until the transaction ends, which serializes their additions, so that their limit is exact, and prevents its
 * erasure. Returns false if it does not exist. A lock of the row that excludes others would deadlock with changes of apps, which lock it
 * for their webhooks.
 */
export async function lockMembersOf(sql: Queryable, { shard, storeId }: StoreKey): Promise<boolean> {
  await sql`select pg_advisory_xact_lock(${LOCKS.membersOfStore}, hashint8(${storeId}))`;
  const rows = await sql`select from store where shard = ${shard} and id = ${storeId} for key share`;
  return rows.length === 1;
}

export async function isSandbox(sql: Queryable, { shard, storeId }: StoreKey): Promise<boolean> {
  const rows = await sql`select from store where shard = ${shard} and id = ${storeId} and sandbox_of is not null`;
  return rows.length === 1;
}

/** Locks the user against erasure until the transaction ends. Returns false if it does not exist. */
export async function lockUserRow(sql: Queryable, userId: number): Promise<boolean> {
  const rows = await sql`select from users where id = ${userId} for key share`;
  return rows.length === 1;
}

/** Inserts a member. Returns false if the user is a member already. */
export async function insertMember(sql: Queryable, member: Key & { role: Role; now: Date }): Promise<boolean> {
  const rows = await sql`
    insert into membership (shard, store_id, user_id, role, date_created)
    values (${member.shard}, ${member.storeId}, ${member.userId}, ${member.role}, ${member.now})
    on conflict (shard, store_id, user_id) do nothing
    returning user_id`;
  return rows.length === 1;
}

/** Changes the role of a member. The invitations of an owner end with the role, and do not return with it. */
export async function updateRole(sql: Queryable, member: Key & { role: Role }): Promise<void> {
  await sql`
    update membership set role = ${member.role}
    where shard = ${member.shard} and store_id = ${member.storeId} and user_id = ${member.userId}`;
  if (member.role !== 'owner')
    await sql`
      delete from invitation
      where shard = ${member.shard} and store_id = ${member.storeId} and created_by = ${member.userId}`;
}

const awaitedColumns = columnsOf(awaitedFields, 'a');

export type AwaitedRow = RowOf<typeof awaitedFields> & {
  storeId: number;
  /** Time zone of the store. */
  timeZone: string;
};

type AwaitedKey = StoreKey & Identity;

const awaited = (sql: Queryable, { shard, storeId }: StoreKey) => sql`
  select ${awaitedColumns.selected(sql, {})}, a.store_id as "storeId", s.time_zone as "timeZone"
  from awaited_member a join store s on s.shard = a.shard and s.id = a.store_id
  where a.shard = ${shard} and a.store_id = ${storeId} and a.user_id is null`;

export async function findAwaited(sql: Queryable, key: AwaitedKey): Promise<AwaitedRow | undefined> {
  const [row] = await sql<AwaitedRow[]>`
    ${awaited(sql, key)} and a.issuer = ${key.issuer} and a.subject = ${key.subject}`;
  return row;
}

export function listAwaited(sql: Queryable, store: StoreKey, listing: Listing): Promise<AwaitedRow[]> {
  const by = awaitedColumns.compared(sql, {});
  return sql<AwaitedRow[]>`
  ${awaited(sql, store)}${narrowed(sql, listing.filters, by)}
  order by ${ordered(sql, listing.order, by, [sql`a.issuer`, sql`a.subject`])} ${paged(sql, listing)}`;
}

export async function countAwaited(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  { filters }: Pick<Listing, 'filters'> = { filters: [] },
): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from awaited_member a
    where a.shard = ${shard} and a.store_id = ${storeId} and a.user_id is null${narrowed(sql, filters, awaitedColumns.compared(sql, {}))}`;
  return row?.total ?? 0;
}

/** Inserts a membership that waits, or changes its role. */
export async function upsertAwaited(sql: Queryable, row: AwaitedKey & { role: Role; now: Date }): Promise<void> {
  await sql`
    insert into awaited_member (shard, store_id, issuer, subject, role, date_created)
    values (${row.shard}, ${row.storeId}, ${row.issuer}, ${row.subject}, ${row.role}, ${row.now})
    on conflict (shard, store_id, issuer, subject) do update set role = excluded.role`;
}

/** Deletes a membership that waits, or the note of the account of a member, whose id it returns. Undefined if there is neither. */
export async function deleteAwaited(sql: Queryable, key: AwaitedKey): Promise<{ userId: number | null } | undefined> {
  const [row] = await sql<{ userId: number | null }[]>`
    delete from awaited_member
    where shard = ${key.shard} and store_id = ${key.storeId} and issuer = ${key.issuer} and subject = ${key.subject}
    returning user_id as "userId"`;
  return row;
}

/** Notes by which account a member was named, so that the membership can be ended by it after the account is unlinked. */
export async function noteMember(
  sql: Queryable,
  row: AwaitedKey & { userId: number; role: Role; now: Date },
): Promise<void> {
  await sql`
    insert into awaited_member (shard, store_id, issuer, subject, role, date_created, user_id)
    values (${row.shard}, ${row.storeId}, ${row.issuer}, ${row.subject}, ${row.role}, ${row.now}, ${row.userId})
    on conflict (shard, store_id, issuer, subject) do update set user_id = excluded.user_id`;
}

/** Returns the member who was named by the account; undefined if there is none. */
export async function findNoted(sql: Queryable, key: AwaitedKey): Promise<number | undefined> {
  const [row] = await sql<{ userId: number | null }[]>`
    select user_id as "userId" from awaited_member
    where shard = ${key.shard} and store_id = ${key.storeId} and issuer = ${key.issuer} and subject = ${key.subject}`;
  return row?.userId ?? undefined;
}

/** Returns the stores that wait for an identity, in one order. */
export function listStoresAwaiting(sql: Queryable, { issuer, subject }: Identity): Promise<StoreKey[]> {
  return sql<StoreKey[]>`
  select shard, store_id as "storeId" from awaited_member
  where issuer = ${issuer} and subject = ${subject} and user_id is null
  order by shard, store_id`;
}
