/** SQL of the memberships by accounts at OpenID providers, with and without a user. Writes the table awaited_member. */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import { awaitedFields, type Identity } from './awaited-member.ts';
import type { Role } from './member.ts';

const fields = columnsOf(awaitedFields, 'a');

export type AwaitedRow = RowOf<typeof awaitedFields> & {
  storeId: number;
  /** Time zone of the store. */
  timeZone: string;
};

type Store = { shard: number; storeId: number };
type Key = Store & Identity;

const awaited = (sql: Queryable, { shard, storeId }: Store) => sql`
  select ${fields.selected(sql, {})}, a.store_id as "storeId", s.time_zone as "timeZone"
  from awaited_member a join store s on s.shard = a.shard and s.id = a.store_id
  where a.shard = ${shard} and a.store_id = ${storeId} and a.user_id is null`;

export async function findAwaited(sql: Queryable, key: Key): Promise<AwaitedRow | undefined> {
  const [row] = await sql<AwaitedRow[]>`
    ${awaited(sql, key)} and a.issuer = ${key.issuer} and a.subject = ${key.subject}`;
  return row;
}

export function listAwaited(sql: Queryable, store: Store, listing: Listing): Promise<AwaitedRow[]> {
  const by = fields.compared(sql, {});
  return sql<AwaitedRow[]>`
  ${awaited(sql, store)}${narrowed(sql, listing.filters, by)}
  order by ${ordered(sql, listing.order, by, [sql`a.issuer`, sql`a.subject`])} ${paged(sql, listing)}`;
}

export async function countAwaited(
  sql: Queryable,
  { shard, storeId }: Store,
  { filters }: Pick<Listing, 'filters'> = { filters: [] },
): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from awaited_member a
    where a.shard = ${shard} and a.store_id = ${storeId} and a.user_id is null${narrowed(sql, filters, fields.compared(sql, {}))}`;
  return row?.total ?? 0;
}

/** Inserts a membership that waits, or changes its role. */
export async function upsertAwaited(sql: Queryable, row: Key & { role: Role; now: Date }): Promise<void> {
  await sql`
    insert into awaited_member (shard, store_id, issuer, subject, role, date_created)
    values (${row.shard}, ${row.storeId}, ${row.issuer}, ${row.subject}, ${row.role}, ${row.now})
    on conflict (shard, store_id, issuer, subject) do update set role = excluded.role`;
}

/** Deletes a membership that waits, or the note of the account of a member, whose id it returns. Undefined if there is neither. */
export async function deleteAwaited(sql: Queryable, key: Key): Promise<{ userId: number | null } | undefined> {
  const [row] = await sql<{ userId: number | null }[]>`
    delete from awaited_member
    where shard = ${key.shard} and store_id = ${key.storeId} and issuer = ${key.issuer} and subject = ${key.subject}
    returning user_id as "userId"`;
  return row;
}

/** Notes by which account a member was named, so that the membership can be ended by it after the account is unlinked. */
export async function noteMember(sql: Queryable, row: Key & { userId: number; role: Role; now: Date }): Promise<void> {
  await sql`
    insert into awaited_member (shard, store_id, issuer, subject, role, date_created, user_id)
    values (${row.shard}, ${row.storeId}, ${row.issuer}, ${row.subject}, ${row.role}, ${row.now}, ${row.userId})
    on conflict (shard, store_id, issuer, subject) do update set user_id = excluded.user_id`;
}

/** Returns the member who was named by the account; undefined if there is none. */
export async function findNoted(sql: Queryable, key: Key): Promise<number | undefined> {
  const [row] = await sql<{ userId: number | null }[]>`
    select user_id as "userId" from awaited_member
    where shard = ${key.shard} and store_id = ${key.storeId} and issuer = ${key.issuer} and subject = ${key.subject}`;
  return row?.userId ?? undefined;
}

/** Returns the stores that wait for an identity, in one order. */
export function listStoresAwaiting(sql: Queryable, { issuer, subject }: Identity): Promise<Store[]> {
  return sql<Store[]>`
  select shard, store_id as "storeId" from awaited_member
  where issuer = ${issuer} and subject = ${subject} and user_id is null
  order by shard, store_id`;
}
