/** The statements of webhooks of apps: those that an app created, and the one that it declares, in each store that lets it in. */
import { filterIdOf } from '#catalog/payload-filter.ts';
import { eventsOf } from '#catalog/catalog.ts';
import { shardOf } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';
import { defaults, type InactiveReason } from '../webhook-fields.ts';
import { isOfStore, type Access, type AccessOfWebhook, type DeclaringApp, type Scope } from './app-access-sql.ts';

export type WebhookRef = { shard: number; id: number; storeId: number };

type WebhookKey = Pick<WebhookRef, 'shard' | 'id'>;
export type Page = { after: WebhookKey; limit: number };

/** The condition that a webhook `w` is after the page before. */
const isAfter = (sql: Queryable, { after }: Page) =>
  sql`(w.shard, w.id) > (${after.shard}::smallint, ${after.id}::bigint)`;

/** `before`: why the webhook is disabled; null if it is active, or a person has disabled it. */
export type WebhookInScope = WebhookRef &
  AccessOfWebhook & { isForApp: boolean; isActive: boolean; before: InactiveReason | null };

/**
 * Locks a page of the webhooks in the scope that are active, or disabled because the app or the store is suspended; of a store alone also the
 * others, which another transaction may be about to enable. Locks the rows in the order of their keys, so that two calls cannot deadlock.
 */
export function lockInScope(sql: Queryable, scope: Scope, page: Page): Promise<WebhookInScope[]> {
  return sql<WebhookInScope[]>`
  select w.shard, w.id, w.store_id as "storeId", w.client, w.user_id as "userId", w.is_for_app as "isForApp",
    w.is_active as "isActive", w.inactive_reason as before
  from webhook w
  where (${isOfStore(scope)} or w.is_active or w.inactive_reason = 'suspended')
    and ${scope.client === undefined ? sql`true` : sql`w.client = ${scope.client}`}
    and ${scope.userId === undefined ? sql`true` : sql`w.user_id = ${scope.userId}`}
    and ${scope.storeId == null ? sql`true` : sql`w.store_id = ${scope.storeId}`}
    and ${isAfter(sql, page)}
  order by w.shard, w.id limit ${page.limit} for no key update of w`;
}

/**
 * Disables locked webhooks for the reason `after`, or enables them (null). Disabling an active one raises its epoch; the time without a
 * listener begins again for a pull webhook that is enabled.
 */
export async function updateActivity(
  sql: Queryable,
  webhooks: readonly (WebhookKey & { after: InactiveReason | null })[],
  now: Date,
): Promise<void> {
  await sql`
  update webhook w
  set is_active = k.reason is null, inactive_reason = k.reason, epoch = epoch + case when w.is_active then 1 else 0 end,
    listened_at = case when w.is_held and k.reason is null then ${now}::timestamptz else w.listened_at end, revision = revision + 1,
    date_modified = ${now}
  from unnest(
    ${webhooks.map(({ shard }) => shard)}::smallint[], ${webhooks.map(({ id }) => id)}::bigint[],
    ${webhooks.map(({ after }) => after)}::text[]
  ) as k (shard, id, reason)
  where w.shard = k.shard and w.id = k.id`;
}

/** Returns, for each store, how many webhooks of an app are disabled because its access ended. */
export function countStopped(
  sql: Queryable,
  client: number,
  storeIds: readonly number[],
): Promise<{ storeId: number; count: number }[]> {
  return sql<{ storeId: number; count: number }[]>`
  select store_id as "storeId", count(*) from webhook
  where client = ${client} and store_id = any(${storeIds}::bigint[]) and not is_held and inactive_reason = 'access_ended'
  group by store_id`;
}

/**
 * Enables the webhooks that were disabled when the app's access ended, and assigns them to `userId`. Locks their stores against a suspension;
 * in a store that is suspended they stay disabled.
 */
export function resumeStopped(
  sql: Queryable,
  { client, userId, storeIds }: { client: number; userId: number; storeIds: readonly number[] },
  now: Date,
): Promise<(WebhookRef & { before: 'access_ended'; after: null })[]> {
  return sql<(WebhookRef & { before: 'access_ended'; after: null })[]>`
  with resuming as (
    select w.shard, w.id from webhook w join store s on s.shard = w.shard and s.id = w.store_id and s.suspended_reason is null
    where w.client = ${client} and w.store_id = any(${storeIds}::bigint[]) and not w.is_held and w.inactive_reason = 'access_ended'
    order by w.shard, w.id for share of s for no key update of w
  )
  update webhook w
  set is_active = true, inactive_reason = null, user_id = ${userId}, revision = revision + 1, date_modified = ${now}
  from resuming
  where w.shard = resuming.shard and w.id = resuming.id
  returning w.shard, w.id, w.store_id as "storeId", 'access_ended' as before, null as after`;
}

const NAME_LENGTH_MAX = 255;

/**
 * Inserts the webhook of an app in those of these stores that have none and are in this database, not yet as installed. Locks the stores, so
 * that none of them is erased or suspended meanwhile.
 */
export async function insertMissing(
  sql: Queryable,
  { client, clientId, name, url }: DeclaringApp,
  installs: readonly { storeId: number; userId: number }[],
  now: Date,
): Promise<void> {
  const filter = `client_id=${clientId}`;
  const title = Array.from(`App events of ${name}`).slice(0, NAME_LENGTH_MAX).join('');
  const storeIds = installs.map(({ storeId }) => storeId);
  await sql`
  insert into webhook (shard, id, store_id, client, user_id, name, format, version, url, filter, filter_id, event_resource,
    events, is_active, inactive_reason, headers, retry_profile, date_created, date_modified, is_for_app)
  select p.shard, nextval('id_n') * 256 + p.shard, p.store_id, ${client}, p.user_id, ${title}, 'json', ${defaults.version}, ${url},
    ${filter}, ${filterIdOf(filter)}, 'app', ${eventsOf('app')}::text[],
    s.suspended_reason is null, case when s.suspended_reason is not null then 'suspended' end, '{}', 'long', ${now}, ${now}, true
  from unnest(
    ${storeIds.map(shardOf)}::smallint[], ${storeIds}::bigint[], ${installs.map(({ userId }) => userId)}::bigint[]
  ) as p (shard, store_id, user_id)
  join store s on s.shard = p.shard and s.id = p.store_id
  where not exists (
    select from webhook w where w.shard = p.shard and w.store_id = p.store_id and w.client = ${client} and w.is_for_app
  ) and exists (select from shard_lease l where l.shard = p.shard)
  for share of s
  on conflict (shard, store_id, client) where is_for_app do nothing`;
}

/** A locked webhook that an app declares, with the scope that was sent last; null if the app is not installed. */
export type LockedForApp = WebhookRef & Access & { scope: string | null };

/** Returns the apps that have declared a webhook of the store. */
export async function listDeclaringIn(sql: Queryable, storeId: number): Promise<number[]> {
  const rows = await sql<{ client: number }[]>`
    select client from webhook
    where shard = ${shardOf(storeId)} and store_id = ${storeId} and is_for_app and client is not null`;
  return rows.map(({ client }) => client);
}

/** Locks a page of the apps' webhooks in these stores (undefined: all) that are not suspended, in the order of their keys. */
export function lockForApps(
  sql: Queryable,
  apps: readonly DeclaringApp[],
  storeIds: readonly number[] | undefined,
  page: Page,
): Promise<LockedForApp[]> {
  return sql<LockedForApp[]>`
  select w.shard, w.id, w.store_id as "storeId", w.client, w.user_id as "userId", w.app_scope as scope from webhook w
  where w.client = any(${apps.map(({ client }) => client)}::bigint[]) and w.is_for_app
    and w.inactive_reason is distinct from 'suspended'
    and ${storeIds === undefined ? sql`true` : sql`w.store_id = any(${storeIds}::bigint[])`}
    and ${isAfter(sql, page)}
  order by w.shard, w.id limit ${page.limit} for no key update of w`;
}

/**
 * Writes the scopes of apps to their locked webhooks. A webhook that Halcyon has disabled is enabled, so that each change is tried.
 */
export async function updateScopes(
  sql: Queryable,
  changes: readonly (WebhookKey & { after: string | null })[],
  now: Date,
): Promise<void> {
  await sql`
  update webhook w set app_scope = n.scope, is_active = true, inactive_reason = null, revision = revision + 1, date_modified = ${now}
  from unnest(
    ${changes.map(({ shard }) => shard)}::smallint[], ${changes.map(({ id }) => id)}::bigint[],
    ${changes.map(({ after }) => after)}::text[]
  ) as n (shard, id, scope)
  where w.shard = n.shard and w.id = n.id`;
}

/**
 * Prepares the webhooks that apps declare in a store for the event of its erasure, and returns them with the scopes that were sent last. The
 * raised epoch ends all earlier deliveries, and the backoff of a failing endpoint. Webhooks that were made before the event existed are
 * subscribed to it. Those of suspended apps are disabled; a suspension of the store ends.
 */
export function prepareForErasure(
  sql: Queryable,
  { shard, storeId }: { shard: number; storeId: number },
  suspendedApps: readonly number[],
  now: Date,
): Promise<LockedForApp[]> {
  return sql<LockedForApp[]>`
  with declared as (
    select shard, id, app_scope from webhook where shard = ${shard} and store_id = ${storeId} and is_for_app
    order by id for no key update
  )
  update webhook w
  set app_scope = null, user_id = null, events = ${eventsOf('app')}::text[],
    is_active = w.client <> all(${suspendedApps}::bigint[]),
    inactive_reason = case when w.client = any(${suspendedApps}::bigint[]) then 'suspended' end,
    epoch = epoch + 1, revision = revision + 1, date_modified = ${now}
  from declared d
  where w.shard = d.shard and w.id = d.id and w.client is not null
  returning w.shard, w.id, w.store_id as "storeId", w.client, w.user_id as "userId", d.app_scope as scope`;
}

/** Changes the url of the app's webhooks in all stores, and returns them. */
export function updateUrls(sql: Queryable, client: number, url: string, now: Date): Promise<WebhookRef[]> {
  return sql<WebhookRef[]>`
  update webhook set url = ${url}, revision = revision + 1, date_modified = ${now}
  where client = ${client} and is_for_app and url <> ${url}
  returning shard, id, store_id as "storeId"`;
}

/** Makes workers find that the webhooks of an app have changed, and returns them. What stores see of a webhook stays. */
export function raiseRevisions(sql: Queryable, client: number): Promise<WebhookRef[]> {
  return sql<WebhookRef[]>`
  update webhook set revision = revision + 1 where client = ${client} and is_for_app
  returning shard, id, store_id as "storeId"`;
}

/** Deletes the webhooks of an app that declares one in all stores, and returns them. */
export function deleteForApp(sql: Queryable, client: number): Promise<WebhookRef[]> {
  return sql<WebhookRef[]>`
  delete from webhook where client = ${client} and is_for_app returning shard, id, store_id as "storeId"`;
}
