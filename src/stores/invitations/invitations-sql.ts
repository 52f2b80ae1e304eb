/** SQL of invitations. Writes the table invitation. */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import { firstOf, hasRows, totalOf, type Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import type { Role } from '../members/member.ts';
import { invitationFields, receivedFields } from './invitation.ts';
import type { StoreKey } from '#core/ids.ts';

const fields = columnsOf(invitationFields, 'i');
const receivedColumns = columnsOf(receivedFields, 'i');

export type InvitationRow = RowOf<typeof invitationFields> & {
  storeId: number;
  /** Time zone of the store. */
  timeZone: string;
};

type Key = StoreKey & { id: number };

const isMailed = (sql: Queryable) => sql`(i.mailed_hash is not null)`;

/** Selects the invitations of a store that have not expired. */
const pending = (sql: Queryable, { shard, storeId }: StoreKey, now: Date) => sql`
  select ${fields.selected(sql, { is_mailed: isMailed(sql) })}, i.store_id as "storeId", s.time_zone as "timeZone"
  from invitation i join store s on s.shard = i.shard and s.id = i.store_id
  where i.shard = ${shard} and i.store_id = ${storeId} and i.date_expires > ${now}`;

const compared = (sql: Queryable) => fields.compared(sql, { is_mailed: isMailed(sql) });

/** Returns a page of a store's pending invitations, ordered by id by default. */
export function listInvitations(sql: Queryable, { shard, storeId, now }: StoreKey & { now: Date }, listing: Listing) {
  return sql<InvitationRow[]>`
  ${pending(sql, { shard, storeId }, now)}${narrowed(sql, listing.filters, compared(sql))}
  order by ${ordered(sql, listing.order, compared(sql), [sql`i.id`])} ${paged(sql, listing)}`;
}

export function countInvitations(
  sql: Queryable,
  { shard, storeId, now }: StoreKey & { now: Date },
  { filters }: Pick<Listing, 'filters'> = { filters: [] },
): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total from invitation i
    where i.shard = ${shard} and i.store_id = ${storeId} and i.date_expires > ${now}
      ${narrowed(sql, filters, compared(sql))}`);
}

/** Returns a pending invitation. */
export function findInvitation(sql: Queryable, key: Key, now: Date): Promise<InvitationRow | undefined> {
  return firstOf(sql<InvitationRow[]>`${pending(sql, key, now)} and i.id = ${key.id}`);
}

/** Returns whether a member of the store has this e-mail address. */
export function isMemberAddress(sql: Queryable, { shard, storeId }: StoreKey, email: string): Promise<boolean> {
  return hasRows(sql`
    select from membership m join users u on u.id = m.user_id
    where m.shard = ${shard} and m.store_id = ${storeId} and u.email = ${email}`);
}

/**
 * Locks the membership of an owner until the transaction ends, so that the owner is neither removed nor demoted meanwhile. Returns
 * false if the user is no owner of the store.
 */
export function lockOwner(sql: Queryable, { shard, storeId }: StoreKey, userId: number): Promise<boolean> {
  return hasRows(sql`
    select from membership
    where shard = ${shard} and store_id = ${storeId} and user_id = ${userId} and role = 'owner' for share`);
}

export async function insertInvitation(
  sql: Queryable,
  invitation: Key & {
    hash: Buffer;
    mailedHash: Buffer | null;
    email: string | null;
    role: Role;
    createdBy: number | null;
    now: Date;
    expires: Date;
  },
): Promise<void> {
  const { shard, id, storeId, hash, mailedHash, email, role, createdBy, now, expires } = invitation;
  await sql`
    insert into invitation
      (shard, id, store_id, hash, mailed_hash, email, role, created_by, date_created, date_expires)
    values (${shard}, ${id}, ${storeId}, ${hash}, ${mailedHash}, ${email}, ${role}, ${createdBy}, ${now}, ${expires})`;
}

/** Deletes a pending invitation and returns its role and date; undefined if there is none. */
export function deleteInvitation(sql: Queryable, key: Key, now: Date) {
  return firstOf(sql<{ role: Role; dateCreated: Date }[]>`
    delete from invitation
    where shard = ${key.shard} and store_id = ${key.storeId} and id = ${key.id} and date_expires > ${now}
    returning role, date_created as "dateCreated"`);
}

/** A valid invitation that a token leads to. `isMailed`: the token was only sent by mail to `email`. */
export type OfferedInvitation = Key & {
  email: string | null;
  role: Role;
  isMailed: boolean;
  createdBy: number | null;
  storeName: string;
};

/** Returns the invitation of a token's hash; undefined if it is unknown, used, revoked or expired. */
export function findOffered(sql: Queryable, hash: Buffer, now: Date): Promise<OfferedInvitation | undefined> {
  return firstOf(sql<OfferedInvitation[]>`
    select i.shard, i.id, i.store_id as "storeId", i.email, i.role, i.hash <> ${hash} as "isMailed",
      i.created_by as "createdBy", s.name as "storeName"
    from invitation i join store s on s.shard = i.shard and s.id = i.store_id
    where (i.hash = ${hash} or i.mailed_hash = ${hash}) and i.date_expires > ${now}`);
}

/** An invitation as its person reads it. `email`: that of the person. */
export type ReceivedInvitation = OfferedInvitation & RowOf<typeof receivedFields> & { email: string };

type Receiver = { userId: number; now: Date };

/** Selects the pending invitations to the address of a user whose e-mail address is verified. */
const received = (sql: Queryable, { userId, now }: Receiver) => sql`
  from invitation i
    join users u on u.id = ${userId} and u.is_email_verified and i.email = u.email
    join store s on s.shard = i.shard and s.id = i.store_id
  where i.date_expires > ${now}`;

const comparedReceived = (sql: Queryable) => receivedColumns.compared(sql, { store_name: sql`s.name` });

const selectReceived = (sql: Queryable, of: Receiver) => sql`
  select ${receivedColumns.selected(sql, { store_name: sql`s.name` })}, i.shard, u.email, ${isMailed(sql)} as "isMailed",
    i.created_by as "createdBy"
  ${received(sql, of)}`;

/** Returns a page of the pending invitations to a user, ordered by id by default. */
export function listReceived(sql: Queryable, of: Receiver, listing: Listing): Promise<ReceivedInvitation[]> {
  return sql<ReceivedInvitation[]>`
  ${selectReceived(sql, of)}${narrowed(sql, listing.filters, comparedReceived(sql))}
  order by ${ordered(sql, listing.order, comparedReceived(sql), [sql`i.id`])} ${paged(sql, listing)}`;
}

export function countReceived(sql: Queryable, of: Receiver, { filters }: Pick<Listing, 'filters'>): Promise<number> {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total ${received(sql, of)}${narrowed(sql, filters, comparedReceived(sql))}`);
}

/** Returns a pending invitation to the user. */
export function findReceived(sql: Queryable, { id, ...of }: Receiver & { id: number }) {
  return firstOf(sql<ReceivedInvitation[]>`${selectReceived(sql, of)} and i.id = ${id}`);
}

/** Deletes the invitations to the e-mail address of a user, if it is verified, in all stores. */
export async function deleteInvitationsTo(sql: Queryable, userId: number): Promise<void> {
  await sql`delete from invitation where email = (
      select email from users where id = ${userId} and is_email_verified
    )`;
}
