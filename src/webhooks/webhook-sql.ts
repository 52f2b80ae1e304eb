/** The statements that read and write the table `webhook`. */
import { HIDDEN_FROM_APPS } from '#catalog/catalog.ts';
import { filterIdOf } from '#catalog/payload-filter.ts';
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import { shardOf, type StoreKey } from '#core/ids.ts';
import { webhookFields, type Settings } from './webhook-fields.ts';
import { deliverableTo } from '#events/replay/recoveries-sql.ts';

export type WebhookRow = RowOf<typeof webhookFields> & {
  storeId: number;
  /** The client that created it; null if a user did. */
  client: number | null;
  /** Halcyon made it for the client, which declares it once for all stores; nothing else may change it. */
  isForApp: boolean;
  /** The user who created it, or on whose behalf the client did; null for the platform. */
  user: number | null;
  /** Sealed: the query of the url and the values of the headers. */
  requestSecrets: Buffer | null;
  epoch: number;
  revision: number;
  timeZone: string;
  lacks: Lack | null;
  consecutiveFailures: number;
  pausedUntil: Date | null;
  /** The end of a pause, or the next probe of a failing endpoint; no attempt starts before. May lie in the past. */
  heldUntil: Date | null;
};

/** The id of a webhook, the stores that the caller may access (null: all), and the app that calls (null: none). */
export type Key = { shard: number; id: number; stores: readonly number[] | null; app: number | null };

/** Ignores a state that was written under an older epoch. */
const withState = (sql: Queryable) =>
  sql`left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch`;

const columns = columnsOf(webhookFields, 'w');

const selected = (sql: Queryable) => sql`
  select ${columns.selected(sql, {})}, w.store_id as "storeId", w.client, w.is_for_app as "isForApp", w.user_id as "user",
    w.request_secrets as "requestSecrets", ${lacking(sql)} as lacks, w.epoch, w.revision, s.time_zone as "timeZone",
    coalesce(t.consecutive_failures, 0) as "consecutiveFailures", t.paused_until as "pausedUntil",
    greatest(t.paused_until, t.probe_at) as "heldUntil"
  from webhook w
  join store s on s.shard = w.shard and s.id = w.store_id
  ${withState(sql)}`;

const atKey = (sql: Queryable, { shard, id, stores, app }: Key) => sql`
  w.shard = ${shard} and w.id = ${id} and (${stores}::bigint[] is null or w.store_id = any (${stores}::bigint[]))
  ${seenBy(sql, app)}`;

export async function findWebhook(sql: Queryable, key: Key): Promise<WebhookRow | undefined> {
  const [row] = await sql<WebhookRow[]>`${selected(sql)} where ${atKey(sql, key)}`;
  return row;
}

/** Returns the webhook and locks its row until the transaction ends. */
export async function lockWebhook(sql: Queryable, key: Key): Promise<WebhookRow | undefined> {
  const [row] = await sql<WebhookRow[]>`${selected(sql)} where ${atKey(sql, key)} for no key update of w`;
  return row;
}

/** Returns why the store is suspended, null if it is not, and locks it against a suspension until the transaction ends. */
export async function lockSuspensionOf(sql: Queryable, { shard, storeId }: StoreKey): Promise<string | null> {
  const [row] = await sql<{ reason: string | null }[]>`
    select suspended_reason as reason from store where shard = ${shard} and id = ${storeId} for share`;
  return row?.reason ?? null;
}

/** Returns the SQL of each property for filters and orders; `state` repeats `stateOf`. */
const comparedAt = (sql: Queryable, now: Date) =>
  columns.compared(sql, {
    rotation_ends: sql`case when w.rotation_ends_at > ${now}::timestamptz then w.rotation_ends_at end`,
    state: sql`case
    when not w.is_active or ${lacking(sql)} is not null then 'inactive'
    when t.paused_until > ${now}::timestamptz then 'paused'
    when t.consecutive_failures > 0 then 'failing'
    else 'ok' end`,
  });

/** Returns a page of a store's webhooks, ordered by id by default, with their states at `now`. */
export function listWebhooks(sql: Queryable, store: SeenStore, listing: Listing, now: Date): Promise<WebhookRow[]> {
  return sql<WebhookRow[]>`
  ${selected(sql)}
  where w.shard = ${store.shard} and w.store_id = ${store.storeId} ${seenBy(sql, store.app)} ${narrowed(sql, listing.filters, comparedAt(sql, now))}
  order by ${ordered(sql, listing.order, comparedAt(sql, now), [sql`w.id`])} ${paged(sql, listing)}`;
}

/** Returns the number of webhooks of the store that match the filters; undefined if the store does not exist. */
export async function countWebhooks(
  sql: Queryable,
  store: SeenStore,
  { filters, now }: { filters: Listing['filters']; now: Date },
): Promise<number | undefined> {
  const [row] = await sql<{ total: number }[]>`
    select (
      select count(*) from webhook w ${withState(sql)}
      where w.shard = s.shard and w.store_id = s.id ${seenBy(sql, store.app)} ${narrowed(sql, filters, comparedAt(sql, now))}
    ) as total
    from store s
    where s.shard = ${store.shard} and s.id = ${store.storeId}`;
  return row?.total;
}

/** Returns how many webhooks of the store count for its limit: all but those that apps declare. */
export async function countOwnWebhooks(sql: Queryable, { shard, storeId }: StoreKey): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from webhook where shard = ${shard} and store_id = ${storeId} and not is_for_app`;
  return row?.total ?? 0;
}

export async function hasStore(sql: Queryable, store: StoreKey): Promise<boolean> {
  const rows = await sql`select from store where shard = ${store.shard} and id = ${store.storeId}`;
  return rows.length === 1;
}

/**
 * Locks the store, so that the number of its webhooks cannot change until the transaction ends. Count in a separate statement:
 * one that waits for this lock has a snapshot from before.
 */
export async function lockStore(sql: Queryable, store: StoreKey): Promise<void> {
  await sql`select id from store where shard = ${store.shard} and id = ${store.storeId} for no key update`;
}

export async function nextNumber(sql: Queryable): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select nextval('id_n') as n`;
  if (row === undefined) throw new Error('nextval returned no row');
  return row.n;
}

type NewWebhook = Settings &
  Pick<WebhookRow, 'id' | 'storeId' | 'client' | 'user' | 'encryptionKey' | 'requestSecrets'> & {
    shard: number;
    now: Date;
  };

const idOf = ({ filter }: Settings): bigint | null => (filter === null ? null : filterIdOf(filter));

export async function insertWebhook(sql: Queryable, webhook: NewWebhook): Promise<void> {
  await sql`
    insert into webhook (shard, id, store_id, client, user_id, encryption_key, request_secrets, filter_id, listened_at, date_created,
      date_modified, ${columns.names(sql)})
    values (${webhook.shard}, ${webhook.id}, ${webhook.storeId}, ${webhook.client}, ${webhook.user}, ${webhook.encryptionKey},
      ${webhook.requestSecrets}, ${idOf(webhook)}, ${webhook.isHeld ? webhook.now : null}, ${webhook.now}, ${webhook.now},
      ${columns.parameters(sql, webhook)})`;
}

type ChangedWebhook = Omit<NewWebhook, 'client'> &
  Pick<WebhookRow, 'nextEncryptionKey' | 'rotationEndsAt' | 'inactiveReason'> & { stopsDeliveries: boolean };

/**
 * Writes every setting of a locked webhook except `is_held`. Raising the epoch fails all pending deliveries with one row update.
 */
export async function updateWebhook(sql: Queryable, webhook: ChangedWebhook): Promise<void> {
  await sql`
    update webhook set ${columns.assigned(sql, webhook)},
      user_id         = ${webhook.user},
      filter_id       = ${idOf(webhook)},
      encryption_key  = ${webhook.encryptionKey},
      next_encryption_key = ${webhook.nextEncryptionKey},
      rotation_ends_at = ${webhook.rotationEndsAt},
      inactive_reason = ${webhook.isActive ? null : webhook.inactiveReason},
      request_secrets = ${webhook.requestSecrets},
      epoch           = epoch + ${webhook.stopsDeliveries ? 1 : 0},
      revision        = revision + 1,
      date_modified   = ${webhook.now}
    where shard = ${webhook.shard} and id = ${webhook.id} and store_id = ${webhook.storeId}`;
}

/** Deletes the webhook, if it exists and the caller may access it. */
export async function deleteWebhook(sql: Queryable, key: Key): Promise<void> {
  await sql`delete from webhook w where ${atKey(sql, key)}`;
}

/**
 * The condition that the caller sees the webhook `w`: an app sees no webhook that another app declares. `app` is the app that calls, null
 * for people and the platform.
 */
export function seenBy(sql: Queryable, app: number | null): Fragment {
  return app === null ? sql`` : sql`and (not w.is_for_app or w.client = ${app})`;
}

/** The condition that the caller sees the deliveries of the webhook `w`, if it exists; the same as `seesHistory` of webhook-access.ts. */
export function historySeenBy(sql: Queryable, app: number | null): Fragment {
  return app === null
    ? sql``
    : sql`and case when w.is_for_app then w.client = ${app} else coalesce(w.event_resource <> all(${HIDDEN_FROM_APPS}::text[]), true) end`;
}

/**
 * The condition that the event `e` of the failed delivery `d`, which no resend followed, did not arrive at the webhook `w`: it did not
 * arrive before a resend either, it can be sent, and the webhook still subscribes to it. A recovery with `only_failed` sends these,
 * but for those that the filter of the webhook excludes by now; pull webhooks have none. Earlier
 * deliveries are sought from the day of the event on: in the partitions of 30 days, 1,000 rows took 30,000 searches.
 */
export function hasNotArrived(sql: Queryable, shard: number | Fragment) {
  return sql`
  not w.is_held and octet_length(e.body) > 0
  and (e.resource_type || '/' || e.action) = any(${deliverableTo(sql)})
  and not exists (
    select from delivery_done a
    where a.shard = ${shard} and a.resent_as = d.id and a.state = 'successful'
      and a.id >= (e.id >> 38) << 38 and a.id < d.id
  )`;
}

/** The same for any delivery in a list, as the text of a flag. */
export function notArrivedFlag(sql: Queryable, shard: number) {
  return sql`
  case when d.state = 'failed' and d.resent_as is null and exists (
    select from webhook w where w.shard = ${shard} and w.id = d.webhook_id and ${hasNotArrived(sql, shard)}
  ) then '1' else '0' end`;
}

/** A store, and the app that calls (null: none). */
export type SeenStore = StoreKey & { app: number | null };

/** The setting without which a webhook is sent nothing. */
export type Lack = 'events' | 'url';

export function lacking(sql: Queryable) {
  return sql`
  case when cardinality(w.events) = 0 then 'events' when w.url is null and not w.is_held then 'url' end`;
}

/** Returns the ids of the webhooks of a store. */
export async function listWebhookIds(sql: Queryable, { shard, storeId }: StoreKey): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`select id from webhook where shard = ${shard} and store_id = ${storeId}`;
  return rows.map(({ id }) => id);
}

/** A webhook that can send a test delivery, with the name of its store. */
export type Testable = { id: number; name: string; store: string };

/** Returns the newest webhooks of these stores that have a url and events, without those that apps declare. */
export function listTestable(sql: Queryable, stores: readonly number[], limit: number): Promise<Testable[]> {
  return sql<Testable[]>`
    select w.id, w.name, s.name as store
    from unnest(${stores.map(shardOf)}::int[], ${stores}::bigint[]) as k (shard, id)
    join store s on s.shard = k.shard and s.id = k.id
    join webhook w on w.shard = k.shard and w.store_id = k.id
    where w.url is not null and w.event_resource is not null and not w.is_for_app
    order by w.id desc limit ${limit}`;
}

/** Deletes the webhooks of a store and returns their ids, except those that apps declare for their own events. */
export async function deleteStoreWebhooks(sql: Queryable, { shard, storeId }: StoreKey): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    delete from webhook where shard = ${shard} and store_id = ${storeId}
      and not (is_for_app and event_resource = 'app') returning id`;
  return rows.map(({ id }) => id);
}

/** Deletes a webhook whose store was erased, unless it has another epoch. Returns whether it was deleted. */
export async function deleteOfErasedStore(
  sql: Queryable,
  { shard, id, epoch }: { shard: number; id: number; epoch: number },
): Promise<boolean> {
  const { count } = await sql`
    delete from webhook w
    where w.shard = ${shard} and w.id = ${id} and w.epoch = ${epoch}
      and not exists (select from store s where s.shard = w.shard and s.id = w.store_id)`;
  return count > 0;
}

/** Registers a listener and returns its unique time; undefined if the webhook was deleted. */
export async function beginListening(
  sql: Queryable,
  { shard, id }: Pick<Key, 'shard' | 'id'>,
  now: Date,
): Promise<Date | undefined> {
  const [row] = await sql<{ listenedAt: Date }[]>`
    update webhook set listened_at = greatest(${now}::timestamptz, listened_at + interval '1 millisecond')
    where shard = ${shard} and id = ${id} and is_held
    returning listened_at as "listenedAt"`;
  return row?.listenedAt;
}

/** Renews the time of a listener; returns false if a newer one has begun since `before`. */
export async function renewListening(
  sql: Queryable,
  { shard, id }: Pick<Key, 'shard' | 'id'>,
  { before, now }: { before: Date; now: Date },
): Promise<boolean> {
  const { count } = await sql`
    update webhook set listened_at = ${now} where shard = ${shard} and id = ${id} and listened_at = ${before}`;
  return count > 0;
}

/** Returns the time of the newest listener; undefined if the webhook was deleted or the caller may not access it. */
export async function lastListened(sql: Queryable, { shard, id, stores }: Key): Promise<Date | undefined> {
  const [row] = await sql<{ listenedAt: Date }[]>`
    select listened_at as "listenedAt" from webhook
    where shard = ${shard} and id = ${id} and is_held
      and (${stores}::bigint[] is null or store_id = any (${stores}::bigint[]))`;
  return row?.listenedAt;
}

/** Returns pull webhooks without a listener since `before`, the longest unattended first. The listener of a suspended app cannot come. */
export function listUnattended(sql: Queryable, before: Date, limit: number): Promise<{ shard: number; id: number }[]> {
  return sql<{ shard: number; id: number }[]>`
  select shard, id from webhook
  where is_held and listened_at < ${before} and inactive_reason is distinct from 'suspended'
  order by listened_at limit ${limit}`;
}

/** A webhook with what it reads of resources. */
export type ReadingWebhook = { shard: number } & Pick<
  WebhookRow,
  'id' | 'storeId' | 'name' | 'isActive' | 'events' | 'query' | 'filter'
>;

/** Returns the next webhooks that get events of this type, in the order of shards and ids. */
export function listReading(
  sql: Queryable,
  { type, after, limit }: { type: string; after: { shard: number; id: number }; limit: number },
): Promise<ReadingWebhook[]> {
  return sql<ReadingWebhook[]>`
    select w.shard, w.id, w.store_id as "storeId", w.name, w.is_active as "isActive", w.events, w.query, w.filter
    from webhook w where w.event_resource = ${type} and (w.shard, w.id) > (${after.shard}, ${after.id})
    order by w.shard, w.id limit ${limit}`;
}
