/** SQL of stores and memberships. */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import { firstOf, oneOf, totalOf, type Queryable, type Sql } from '#db/pool.ts';
import { keyExpression } from '#http/external-keys-sql.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import type { Role } from './members/member.ts';
import { storeFields, type StoreDetails } from './store-document.ts';
import { purgesOf, type OrderedTable, type Purge } from '#db/purges.ts';
import type { StoreKey } from '#core/ids.ts';

const fields = columnsOf(storeFields, 'store');

export type StoreRow = RowOf<typeof storeFields> & {
  /** Increases with each change. */
  revision: number;
  /** Why an operator has suspended it; null if it is not suspended. */
  suspendedReason: string | null;
};

export async function nextNumber(sql: Queryable): Promise<number> {
  return (await oneOf(sql<{ n: number }[]>`select nextval('id_n') as n`)).n;
}

export async function insertStore(
  sql: Queryable,
  store: StoreDetails & { shard: number; id: number; sandboxOf: number | null; now: Date },
): Promise<void> {
  await sql`
    insert into store (shard, id, sandbox_of, date_created, date_modified, ${fields.names(sql)})
    values (${store.shard}, ${store.id}, ${store.sandboxOf}, ${store.now}, ${store.now}, ${fields.parameters(sql, store)})`;
}

/** Removes a member and returns the role; undefined if the user is not a member of the store. */
export async function deleteMember(sql: Queryable, member: StoreKey & { userId: number }): Promise<Role | undefined> {
  const [row] = await sql<{ role: Role }[]>`
    delete from membership
    where shard = ${member.shard} and store_id = ${member.storeId} and user_id = ${member.userId}
    returning role`;
  return row?.role;
}

const isSandbox = (sql: Queryable) => sql`(sandbox_of is not null)`;

/** `reader`: the client of the platform whose keys of stores the rows have; null for other callers. */
type Reader = number | null;

const expressions = (sql: Queryable, reader: Reader) => ({
  is_sandbox: isSandbox(sql),
  external_id: keyExpression(sql, { client: reader, resource: 'store', id: sql`store.id` }),
});

const columns = (sql: Queryable, reader: Reader = null) =>
  sql`${fields.selected(sql, expressions(sql, reader))}, revision, suspended_reason as "suspendedReason"`;

export function findStore(sql: Queryable, { shard, storeId }: StoreKey, reader: Reader = null) {
  return firstOf(sql<StoreRow[]>`
    select ${columns(sql, reader)} from store where shard = ${shard} and id = ${storeId}`);
}

export function findSandbox(sql: Queryable, userId: number): Promise<StoreRow | undefined> {
  return firstOf(sql<StoreRow[]>`select ${columns(sql)} from store where sandbox_of = ${userId}`);
}

/** Locks the user until the transaction ends, so that one sandbox store is created. Returns undefined if it does not exist. */
export function lockDeveloper(sql: Queryable, userId: number): Promise<{ isEmailVerified: boolean } | undefined> {
  return firstOf(sql<{ isEmailVerified: boolean }[]>`
    select is_email_verified as "isEmailVerified" from users where id = ${userId} for no key update`);
}

/** Returns the store and locks its row until the transaction ends. */
export function lockStore(sql: Queryable, { shard, storeId }: StoreKey, reader: Reader): Promise<StoreRow | undefined> {
  return firstOf(sql<StoreRow[]>`
    select ${columns(sql, reader)} from store where shard = ${shard} and id = ${storeId} for no key update of store`);
}

/** Updates all details of a locked store. */
export function updateStore(
  sql: Queryable,
  store: StoreDetails & { shard: number; id: number; reader: Reader; now: Date },
): Promise<StoreRow | undefined> {
  return firstOf(sql<StoreRow[]>`
    update store set ${fields.assigned(sql, store)},
      revision = revision + 1, date_modified = ${store.now}
    where shard = ${store.shard} and id = ${store.id}
    returning ${columns(sql, store.reader)}`);
}

/** Suspends a store for a reason, or ends its suspension (null). Returns its name and the reason before; undefined if nothing changed. */
export function updateSuspension(sql: Queryable, { shard, storeId }: StoreKey, reason: string | null) {
  return firstOf(sql<{ name: string; before: string | null }[]>`
    update store s set suspended_reason = ${reason}
    from (select shard, id, suspended_reason from store where shard = ${shard} and id = ${storeId} for no key update) as was
    where s.shard = was.shard and s.id = was.id and (was.suspended_reason is null) <> ${reason === null}
    returning s.name, was.suspended_reason as before`);
}

/** The stores that a list may show; null for all, which only the platform sees. */
export type Reach = { shards: readonly number[]; ids: readonly number[] } | null;

const inReach = (sql: Queryable, reach: Reach) =>
  reach === null ? sql`true` : sql`shard = any (${reach.shards}::smallint[]) and id = any (${reach.ids}::bigint[])`;

const compared = (sql: Queryable, reader: Reader) => fields.compared(sql, expressions(sql, reader));

type Shown = { reach: Reach; reader: Reader };

/** Returns a page of stores, ordered by id by default. */
export function listStores(sql: Queryable, { reach, reader }: Shown, listing: Listing): Promise<StoreRow[]> {
  const by = compared(sql, reader);
  return sql<StoreRow[]>`
  select ${columns(sql, reader)} from store where ${inReach(sql, reach)} ${narrowed(sql, listing.filters, by)}
  order by ${ordered(sql, listing.order, by, [sql`id`])} ${paged(sql, listing)}`;
}

export function countStores(sql: Queryable, { reach, reader }: Shown, { filters }: Pick<Listing, 'filters'>) {
  return totalOf(sql<{ total: number }[]>`
    select count(*) as total from store where ${inReach(sql, reach)} ${narrowed(sql, filters, compared(sql, reader))}`);
}

/** `requiresFactor`: members without a second factor have no access in person. `suspendedReason`: null if the store is not suspended. */
export type MembershipRow = {
  storeId: number;
  role: Role;
  name: string;
  isSandbox: boolean;
  requiresFactor: boolean;
  suspendedReason: string | null;
};

export function listMemberships(sql: Queryable, userId: number): Promise<MembershipRow[]> {
  return sql<MembershipRow[]>`
    select m.store_id as "storeId", m.role, s.name, s.sandbox_of is not null as "isSandbox",
      s.second_factor = 'required' as "requiresFactor", s.suspended_reason as "suspendedReason"
    from membership m
      cross join lateral (select name, sandbox_of, second_factor, suspended_reason from store where shard = m.shard and id = m.store_id offset 0) as s
    where m.user_id = ${userId} order by m.store_id`;
}

// The copy of a store in the database of its shard. The columns are passed on by name, so a new column needs no change here.

/** A row as JSON (`to_jsonb`). */
type Row = Readonly<Record<string, unknown>>;

/** Returns the row of a store in the home database; undefined if it was erased. */
export async function readStoreRow(home: Queryable, { shard, storeId }: StoreKey): Promise<Row | undefined> {
  const [found] = await home<{ row: Row }[]>`
    select to_jsonb(s) as row from store s where shard = ${shard} and id = ${storeId}`;
  return found?.row;
}

/** What depends on the properties of a store in its database. */
export type Copied = { domain: string; timeZone: string };

/** Returns the properties of the copy, and locks it until the transaction ends; undefined if there is none. */
export function lockCopy(tx: Queryable, { shard, storeId }: StoreKey): Promise<Copied | undefined> {
  return firstOf(tx<Copied[]>`
    select domain, time_zone as "timeZone" from store where shard = ${shard} and id = ${storeId} for no key update`);
}

/** Inserts or replaces the copy, and returns its properties. */
export async function upsertCopy(tx: Queryable, row: Row): Promise<Copied | undefined> {
  const [copy] = await tx<Copied[]>`
    insert into store select * from jsonb_populate_record(null::store, ${JSON.stringify(row)}::jsonb)
    on conflict (shard, id) do update set
      name = excluded.name, domain = excluded.domain, email = excluded.email, time_zone = excluded.time_zone,
      subscription_events = excluded.subscription_events, second_factor = excluded.second_factor, sandbox_of = excluded.sandbox_of,
      suspended_reason = excluded.suspended_reason, revision = excluded.revision, date_modified = excluded.date_modified
    returning domain, time_zone as "timeZone"`;
  return copy;
}

// SQL that erases a store.

/**
 * Locks the store until the transaction ends, so that nothing can be created in it. Returns its revision; undefined if it does
 * not exist.
 */
export async function lockForErasure(sql: Queryable, shard: number, id: number): Promise<number | undefined> {
  const [row] = await sql<{ revision: number }[]>`
    select revision from store where shard = ${shard} and id = ${id} for update`;
  return row?.revision;
}

export async function deleteMembers(sql: Queryable, shard: number, storeId: number): Promise<void> {
  await sql`delete from membership where shard = ${shard} and store_id = ${storeId}`;
}

/** Records the erasure, so that purges delete the rows of the store in large tables. */
export async function insertErased(sql: Queryable, store: StoreKey & { now: Date }): Promise<void> {
  await sql`insert into erased_store (shard, id, date_erased) values (${store.shard}, ${store.storeId}, ${store.now})`;
}

export async function deleteStore(sql: Queryable, shard: number, id: number): Promise<void> {
  await sql`delete from store where shard = ${shard} and id = ${id}`;
}

// The records of erased stores, and expired invitations.

/** A publish that read the store before its erasure may still write; no request takes longer than this. */
const REQUEST_MAX_MS = 3_600_000;

/** `tables` may contain rows of an erased store; their `order` are the index columns after `shard, store_id`. */
export function createStorePurges({ sql, tables }: { sql: Sql; tables: readonly OrderedTable[] }): readonly Purge[] {
  return purgesOf(sql, [
    {
      name: 'erased_stores',
      by: (_, before, limit) => deleteEmptied(sql, tables, before, limit),
      keptMs: REQUEST_MAX_MS,
    },
  ]);
}

export function createInvitationPurges({ sql }: { sql: Sql }): readonly Purge[] {
  return purgesOf(sql, [{ name: 'invitations', deletes: 'invitation', key: 'ctid', expires: 'date_expires' }]);
}

/** Deletes the records of stores that were erased at `before` or earlier and have no rows left. */
async function deleteEmptied(
  sql: Queryable,
  tables: readonly OrderedTable[],
  before: Date,
  limit: number,
): Promise<number> {
  const { count } = await sql`
    delete from erased_store where (shard, id) in (
      select e.shard, e.id from erased_store e
      where e.date_erased <= ${before} and ${isEmptied(sql, tables)}
      limit ${limit} for update skip locked
    )`;
  return count;
}

/**
 * Uses scalar subqueries, which look up an index per store; with `not exists` the planner may read the large tables completely.
 */
const isEmptied = (sql: Queryable, tables: readonly OrderedTable[]) =>
  tables.reduce(
    (before, { deletes, order }) => sql`${before} and (
      select 1 from ${sql(deletes)} r where r.shard = e.shard and r.store_id = e.id order by ${sql(order)} limit 1
    ) is null`,
    sql`true`,
  );
