/** The statements of stores: the tables store and membership are written here and nowhere else. */
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import type { STORE_PROPERTIES } from './document.ts';
import type { StoreDetails, SubscriptionEvents } from './rules.ts';

export type Role = 'owner' | 'member';

export type StoreRow = {
  id: number;
  name: string;
  domain: string;
  email: string;
  timeZone: string;
  subscriptionEvents: SubscriptionEvents;
  /** Rises with each change. */
  revision: number;
  dateCreated: Date;
  dateModified: Date;
};

export const nextNumber = async (sql: Queryable): Promise<number> => {
  const [row] = await sql<{ n: number }[]>`select nextval('id_n') as n`;
  if (row === undefined) throw new Error('nextval answered no row');
  return row.n;
};

export const insertStore = async (
  sql: Queryable,
  store: StoreDetails & { shard: number; id: number; now: Date },
): Promise<void> => {
  await sql`
    insert into store
      (shard, id, name, domain, email, time_zone, subscription_events, date_created, date_modified)
    values (${store.shard}, ${store.id}, ${store.name}, ${store.domain}, ${store.email}, ${store.timeZone},
      ${store.subscriptionEvents}, ${store.now}, ${store.now})`;
};

/** The role that they had; undefined where the user is no member of the store. */
export const deleteMember = async (
  sql: Queryable,
  member: { shard: number; storeId: number; userId: number },
): Promise<Role | undefined> => {
  const [row] = await sql<{ role: Role }[]>`
    delete from membership
    where shard = ${member.shard} and store_id = ${member.storeId} and user_id = ${member.userId}
    returning role`;
  return row?.role;
};

const columns = (sql: Queryable) =>
  sql`id, name, domain, email, time_zone as "timeZone", subscription_events as "subscriptionEvents", revision,
    date_created as "dateCreated", date_modified as "dateModified"`;

export const findStore = async (sql: Queryable, shard: number, id: number): Promise<StoreRow | undefined> => {
  const [row] = await sql<StoreRow[]>`select ${columns(sql)} from store where shard = ${shard} and id = ${id}`;
  return row;
};

/** The store, its row kept from other writers until the transaction ends. */
export const lockStore = async (sql: Queryable, shard: number, id: number): Promise<StoreRow | undefined> => {
  const [row] = await sql<StoreRow[]>`
    select ${columns(sql)} from store where shard = ${shard} and id = ${id} for no key update`;
  return row;
};

/** Writes every detail of a locked store. */
export const updateStore = async (
  sql: Queryable,
  store: StoreDetails & { shard: number; id: number; now: Date },
): Promise<StoreRow | undefined> => {
  const [row] = await sql<StoreRow[]>`
    update store set
      name                = ${store.name},
      domain              = ${store.domain},
      email               = ${store.email},
      time_zone           = ${store.timeZone},
      subscription_events = ${store.subscriptionEvents},
      revision            = revision + 1,
      date_modified       = ${store.now}
    where shard = ${store.shard} and id = ${store.id}
    returning ${columns(sql)}`;
  return row;
};

/** Which stores a list may show: null for all of them, which only the platform sees. */
export type Reach = { shards: readonly number[]; ids: readonly number[] } | null;

const reached = (sql: Queryable, reach: Reach) =>
  reach === null ? sql`true` : sql`shard = any (${reach.shards}::smallint[]) and id = any (${reach.ids}::bigint[])`;

const compared = (sql: Queryable): Columns<typeof STORE_PROPERTIES> => ({
  id: sql`id`,
  name: sql`name`,
  domain: sql`domain`,
  email: sql`email`,
  time_zone: sql`time_zone`,
  subscription_events: sql`subscription_events`,
  date_created: sql`date_created`,
  date_modified: sql`date_modified`,
});

/** A page of stores, by id unless asked otherwise. */
export const listStores = async (sql: Queryable, reach: Reach, wanted: Listing): Promise<StoreRow[]> => sql<StoreRow[]>`
  select ${columns(sql)} from store where ${reached(sql, reach)} ${narrowed(sql, wanted.filters, compared(sql))}
  order by ${ordered(sql, wanted.order, compared(sql), [sql`id`])} ${paged(sql, wanted)}`;

export const countStores = async (
  sql: Queryable,
  reach: Reach,
  { filters }: Pick<Listing, 'filters'>,
): Promise<number> => {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from store where ${reached(sql, reach)} ${narrowed(sql, filters, compared(sql))}`;
  return row?.total ?? 0;
};

export type MembershipRow = { storeId: number; role: Role; name: string };

/** The stores that a user is a member of. */
export const listMemberships = async (sql: Queryable, userId: number): Promise<MembershipRow[]> =>
  sql<MembershipRow[]>`
    select m.store_id as "storeId", m.role, s.name
    from membership m join store s on s.shard = m.shard and s.id = m.store_id
    where m.user_id = ${userId} order by m.store_id`;
