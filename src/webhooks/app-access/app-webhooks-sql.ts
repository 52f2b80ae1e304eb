/** The statements of webhooks of apps: those that an app created, and those that it declares, in each store that lets it in. */
import { filterIdOf } from '#catalog/payload-filter.ts';
import { eventsOf, type ResourceType } from '#catalog/catalog.ts';
import { shardOf, type StoreKey } from '#core/ids.ts';
import type { Queryable } from '#db/pool.ts';
import { defaults, type InactiveReason } from '../webhook-fields.ts';
import { isOfStore, type Access, type AccessOfWebhook, type DeclaringApp, type Scope } from './app-access-sql.ts';
import { covers, type Declared } from './declared.ts';

export type WebhookRef = { shard: number; id: number; storeId: number };

type WebhookKey = Pick<WebhookRef, 'shard' | 'id'>;
export type Page = { after: WebhookKey; limit: number };

/** The condition that a webhook `w` is after the page before. */
const isAfter = (sql: Queryable, { after }: Page) =>
  sql`(w.shard, w.id) > (${after.shard}::smallint, ${after.id}::bigint)`;

/**
 * `type` and `scope`: of one that the app declares, the resource of its events, and the scope that counts. `before`: why the webhook is
 * disabled; null if it is active, or a person has disabled it.
 */
export type WebhookInScope = WebhookRef &
  AccessOfWebhook & { isForApp: boolean; type: ResourceType | null; scope: string | null } & {
    isActive: boolean;
    before: InactiveReason | null;
  };

/**
 * Locks a page of the webhooks in the scope that are active, or disabled because the app or the store is suspended; of a store alone also the
 * others, which another transaction may be about to enable. Locks the rows in the order of their keys, so that two calls cannot deadlock.
 */
export function lockInScope(sql: Queryable, scope: Scope, page: Page): Promise<WebhookInScope[]> {
  return sql<WebhookInScope[]>`
  select w.shard, w.id, w.store_id as "storeId", w.client, w.user_id as "userId", w.is_for_app as "isForApp",
    w.event_resource as type, w.app_scope as scope, w.is_active as "isActive", w.inactive_reason as before
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
  where client = ${client} and store_id = any(${storeIds}::bigint[]) and not is_held and not is_for_app and inactive_reason = 'access_ended'
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
    where w.client = ${client} and w.store_id = any(${storeIds}::bigint[]) and not w.is_held and not w.is_for_app
      and w.inactive_reason = 'access_ended'
    order by w.shard, w.id for share of s for no key update of w
  )
  update webhook w
  set is_active = true, inactive_reason = null, user_id = ${userId}, revision = revision + 1, date_modified = ${now}
  from resuming
  where w.shard = resuming.shard and w.id = resuming.id
  returning w.shard, w.id, w.store_id as "storeId", 'access_ended' as before, null as after`;
}

/** Webhooks for events of a store that apps may have declared in it; those for the events of the apps themselves do not count. */
const DECLARED_PER_STORE_MAX = 100;

/**
 * Inserts a webhook of an app in those of these stores that have none for its resource and are in this database. That for the events of the
 * app is not yet installed (`app_scope`); the others have the scope that covers them. Locks the stores, so that none of them is erased or
 * suspended meanwhile. With `not exists` the planner compares each store with all webhooks of the app.
 */
export async function insertMissing(
  sql: Queryable,
  { client, url }: DeclaringApp,
  { type, name, query, filter, events }: Declared,
  installs: readonly { storeId: number; userId: number; scope: string | null }[],
  now: Date,
): Promise<void> {
  const storeIds = installs.map(({ storeId }) => storeId);
  await sql`
  insert into webhook (shard, id, store_id, client, user_id, name, format, version, url, query, filter, filter_id, event_resource,
    events, is_active, inactive_reason, headers, retry_profile, date_created, date_modified, is_for_app, app_scope)
  select p.shard, nextval('id_n') * 256 + p.shard, p.store_id, ${client}, p.user_id, ${name}, 'json', ${defaults.version}, ${url},
    ${query}, ${filter}, ${filter && filterIdOf(filter)}, ${type}, ${events}::text[],
    s.suspended_reason is null, case when s.suspended_reason is not null then 'suspended' end, '{}', 'long', ${now}, ${now}, true,
    case when ${type} <> 'app' then p.scope end
  from unnest(
    ${storeIds.map(shardOf)}::smallint[], ${storeIds}::bigint[], ${installs.map(({ userId }) => userId)}::bigint[],
    ${installs.map(({ scope }) => scope)}::text[]
  ) as p (shard, store_id, user_id, scope)
  join store s on s.shard = p.shard and s.id = p.store_id
  where (
    select 1 from webhook w
    where w.client = ${client} and w.shard = p.shard and w.store_id = p.store_id and w.event_resource = ${type} and w.is_for_app limit 1
  ) is null and exists (select from shard_lease l where l.shard = p.shard) and (${type} = 'app' or ${DECLARED_PER_STORE_MAX} > (
    select count(*) from webhook w
    where w.shard = p.shard and w.store_id = p.store_id and w.is_for_app and w.event_resource <> 'app'
  ))
  for share of s
  on conflict (client, shard, store_id, event_resource) where is_for_app do nothing`;
}

/** A locked webhook that an app declares, with the resource of its events and the scope that counts; null if the app is not installed. */
export type LockedForApp = WebhookRef & Access & { type: ResourceType | null; scope: string | null };

/** Returns the apps that have declared webhooks of the store. */
export async function listDeclaringIn(sql: Queryable, storeId: number): Promise<number[]> {
  const rows = await sql<{ client: number }[]>`
    select distinct client from webhook
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
  select w.shard, w.id, w.store_id as "storeId", w.client, w.user_id as "userId",
    w.event_resource as type, w.app_scope as scope
  from webhook w
  where w.client = any(${apps.map(({ client }) => client)}::bigint[]) and w.is_for_app
    and w.inactive_reason is distinct from 'suspended'
    and ${storeIds === undefined ? sql`true` : sql`w.store_id = any(${storeIds}::bigint[])`}
    and ${isAfter(sql, page)}
  order by w.shard, w.id limit ${page.limit} for no key update of w`;
}

/**
 * Writes the scopes of apps to their locked webhooks. A webhook whose events the scope covers is enabled, also if Halcyon has disabled it, so
 * that each change is tried; the others are disabled, which ends their pending deliveries.
 */
export async function updateScopes(
  sql: Queryable,
  changes: readonly (WebhookKey & { type: ResourceType | null; after: string | null })[],
  now: Date,
): Promise<void> {
  await sql`
  update webhook w set app_scope = n.scope, is_active = n.is_covered,
    inactive_reason = case when not n.is_covered then 'access_ended' end,
    epoch = epoch + case when w.is_active and not n.is_covered then 1 else 0 end, revision = revision + 1, date_modified = ${now}
  from unnest(
    ${changes.map(({ shard }) => shard)}::smallint[], ${changes.map(({ id }) => id)}::bigint[],
    ${changes.map(({ after }) => after)}::text[], ${changes.map(({ after, type }) => covers(after, type))}::boolean[]
  ) as n (shard, id, scope, is_covered)
  where w.shard = n.shard and w.id = n.id`;
}

/**
 * Prepares the webhooks for events of apps that these declare in a store for the event of its erasure, and returns them with the scopes that were sent last. The
 * raised epoch ends all earlier deliveries, and the backoff of a failing endpoint. Webhooks that were made before the event existed are
 * subscribed to it. Those of suspended apps are disabled; a suspension of the store ends.
 */
export function prepareForErasure(
  sql: Queryable,
  { shard, storeId }: StoreKey,
  suspendedApps: readonly number[],
  now: Date,
): Promise<LockedForApp[]> {
  return sql<LockedForApp[]>`
  with declared as (
    select shard, id, app_scope from webhook where shard = ${shard} and store_id = ${storeId} and is_for_app and event_resource = 'app'
    order by id for no key update
  )
  update webhook w
  set app_scope = null, user_id = null, events = ${eventsOf('app')}::text[],
    is_active = w.client <> all(${suspendedApps}::bigint[]),
    inactive_reason = case when w.client = any(${suspendedApps}::bigint[]) then 'suspended' end,
    epoch = epoch + 1, revision = revision + 1, date_modified = ${now}
  from declared d
  where w.shard = d.shard and w.id = d.id and w.client is not null
  returning w.shard, w.id, w.store_id as "storeId", w.client, w.user_id as "userId", w.event_resource as type,
    d.app_scope as scope`;
}
