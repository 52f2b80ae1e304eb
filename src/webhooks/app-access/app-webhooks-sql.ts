/** The statements of webhooks that apps declare: the declarations, and the webhook of an app in each store that lets it in. */
import { filterIdOf } from '#catalog/payload-filter.ts';
import { eventsOf } from '#catalog/catalog.ts';
import type { Queryable } from '#db/pool.ts';
import { defaults } from '../webhook.ts';
import type { Scope, WebhookRef } from './app-access-sql.ts';

/** An app that declares a webhook. `client` is its internal id. */
export type DeclaringApp = { client: number; clientId: string; name: string; url: string };

/** Returns the apps in the scope that declare a webhook. The grants of a user name its apps even after they have ended. */
export function findDeclaring(sql: Queryable, { client, userId }: Scope): Promise<DeclaringApp[]> {
  const ofUser = sql`a.client in (select g.client from access_grant g where g.user_id = ${userId ?? null})`;
  return sql<DeclaringApp[]>`
  select a.client, c.client_id as "clientId", c.name, a.url from app_webhook a join client c on c.id = a.client
  where ${client === undefined ? ofUser : sql`a.client = ${client}`}
  order by a.client for share of c`;
}

const NAME_LENGTH_MAX = 255;

/** Inserts the webhooks of the apps that are missing in stores of the scope, not yet as installed. */
export async function insertMissing(
  sql: Queryable,
  apps: readonly DeclaringApp[],
  { userId, storeId }: Scope,
  now: Date,
): Promise<void> {
  const filters = apps.map(({ clientId }) => `client_id=${clientId}`);
  const names = apps.map(({ name }) => Array.from(`App events of ${name}`).slice(0, NAME_LENGTH_MAX).join(''));
  await sql`
  insert into webhook (shard, id, store_id, client, user_id, name, format, version, url, filter, filter_id, event_resource,
    events, is_active, headers, retry_profile, date_created, date_modified, is_for_app)
  select p.shard, nextval('id_n') * 256 + p.shard, p.store_id, a.client, p.user_id, a.name, 'json', ${defaults.version}, a.url,
    a.filter, a.filter_id, 'app', ${eventsOf('app')}::text[], true, '{}', 'long', ${now}, ${now}, true
  from unnest(
    ${apps.map(({ client }) => client)}::bigint[], ${names}::text[], ${apps.map(({ url }) => url)}::text[], ${filters}::text[],
    ${filters.map(filterIdOf)}::bigint[]
  ) as a (client, name, url, filter, filter_id)
  cross join lateral (
    select m.shard, m.store_id, min(g.user_id) as user_id
    from access_grant g join membership m on m.user_id = g.user_id and (g.store_id is null or g.store_id = m.store_id)
    where g.client = a.client and g.date_revoked is null
      and ${userId === undefined ? sql`true` : sql`g.user_id = ${userId}`}
      and ${storeId == null ? sql`true` : sql`m.store_id = ${storeId}`}
      and not exists (
        select from webhook w where w.shard = m.shard and w.store_id = m.store_id and w.client = a.client and w.is_for_app
      )
    group by m.shard, m.store_id
    order by m.shard, m.store_id
  ) as p
  on conflict (shard, store_id, client) where is_for_app do nothing`;
}

/**
 * Locks a page of the apps' webhooks in the stores of the scope, in the order of their keys. Statements that follow see the grants
 * that other transactions have committed under the lock.
 */
export function lockForApps(
  sql: Queryable,
  apps: readonly DeclaringApp[],
  { userId, storeId }: Scope,
  { after, limit }: { after: Pick<WebhookRef, 'shard' | 'id'>; limit: number },
): Promise<Pick<WebhookRef, 'shard' | 'id'>[]> {
  const stores =
    storeId != null
      ? sql`w.store_id = ${storeId}`
      : userId === undefined
        ? sql`true`
        : sql`w.store_id in (select m.store_id from membership m where m.user_id = ${userId})`;
  return sql<Pick<WebhookRef, 'shard' | 'id'>[]>`
  select w.shard, w.id from webhook w
  where w.client = any(${apps.map(({ client }) => client)}::bigint[]) and w.is_for_app and ${stores}
    and (w.shard, w.id) > (${after.shard}::smallint, ${after.id}::bigint)
  order by w.shard, w.id limit ${limit} for no key update of w`;
}

/** The scope of all grants of the app of the webhook `i` in its store; null if there are none. */
const scopeOf = (sql: Queryable) => sql`(
  select case when bool_or(g.store_id is null) then 'user_full_access' when bool_or(g.permissions is null) then 'store_full_access'
    else string_agg(distinct p.name, ' ' order by p.name) end
  from client c
  join membership m on m.shard = i.shard and m.store_id = i.store_id
  join users u on u.id = m.user_id and u.date_disabled is null
  cross join lateral (select * from access_grant where user_id = m.user_id offset 0) as g
  left join lateral unnest(g.permissions) as p (name) on true
  where c.id = i.client and c.date_deleted is null and g.client = i.client and g.date_revoked is null
    and (g.store_id is null or g.store_id = i.store_id)
)`;

/** The scopes of an app in a store before and after a change; null if it was or is not installed. */
export type ScopeChange = WebhookRef & { client: number; before: string | null; after: string | null };

/**
 * Writes the current scopes of apps to their locked webhooks and returns those that changed. A webhook that Halcyon has disabled is
 * enabled, so that each change is tried.
 */
export function updateScopes(
  sql: Queryable,
  keys: readonly Pick<WebhookRef, 'shard' | 'id'>[],
  now: Date,
): Promise<ScopeChange[]> {
  return sql<ScopeChange[]>`
  update webhook w set app_scope = n.scope, is_active = true, inactive_reason = null, revision = revision + 1, date_modified = ${now}
  from (
    select i.shard, i.id, i.app_scope as before, ${scopeOf(sql)} as scope
    from unnest(${keys.map(({ shard }) => shard)}::smallint[], ${keys.map(({ id }) => id)}::bigint[]) as k (shard, id)
    cross join lateral (select * from webhook where shard = k.shard and id = k.id offset 0) as i
  ) as n
  where w.shard = n.shard and w.id = n.id and n.scope is distinct from n.before
  returning w.shard, w.id, w.store_id as "storeId", w.client, n.before, n.scope as after`;
}

/** The declaration of an app. `key` is sealed. */
export type Declaration = { url: string; key: Buffer };

export async function findDeclaration(sql: Queryable, client: number): Promise<Declaration | undefined> {
  const [row] = await sql<Declaration[]>`select url, key from app_webhook where client = ${client}`;
  return row;
}

/** Inserts or changes the declaration of an app; the key stays. */
export async function upsertDeclaration(
  sql: Queryable,
  { client, url, key, now }: { client: number; url: string; key: Buffer; now: Date },
): Promise<void> {
  await sql`
    insert into app_webhook (client, url, key, date_modified) values (${client}, ${url}, ${key}, ${now})
    on conflict (client) do update set url = excluded.url, date_modified = excluded.date_modified`;
}

/** Changes the url of the app's webhooks in all stores, and returns them. */
export function updateUrls(sql: Queryable, client: number, url: string, now: Date): Promise<WebhookRef[]> {
  return sql<WebhookRef[]>`
  update webhook set url = ${url}, revision = revision + 1, date_modified = ${now}
  where client = ${client} and is_for_app and url <> ${url}
  returning shard, id, store_id as "storeId"`;
}

/** Deletes the declaration of an app and its webhooks in all stores, which it returns. */
export async function deleteDeclaration(sql: Queryable, client: number): Promise<WebhookRef[]> {
  await sql`delete from app_webhook where client = ${client}`;
  return sql<WebhookRef[]>`
  delete from webhook where client = ${client} and is_for_app returning shard, id, store_id as "storeId"`;
}

/** Returns the sealed keys of declarations that were not sealed with the key, by client. */
export function listDeclarationsOfOtherKey(
  sql: Queryable,
  page: { keyId: Buffer; after: number; limitRows: number },
): Promise<{ client: number; key: Buffer }[]> {
  return sql<{ client: number; key: Buffer }[]>`
  select client, key from app_webhook where client > ${page.after} and substring(key from 2 for 4) <> ${page.keyId}
  order by client limit ${page.limitRows}`;
}

export async function countDeclarationsOfOtherKey(sql: Queryable, keyId: Buffer): Promise<number> {
  const [row] = await sql<{ n: number }[]>`
    select count(*) as n from app_webhook where substring(key from 2 for 4) <> ${keyId}`;
  return row?.n ?? 0;
}

/** Replaces sealed keys that are still the ones that were read, and returns their clients. */
export async function replaceDeclarationKeys(
  sql: Queryable,
  rows: readonly { client: number; before: Buffer; after: Buffer }[],
): Promise<number[]> {
  const written = await sql<{ client: number }[]>`
    update app_webhook a set key = r.after
    from unnest(
      ${rows.map(({ client }) => client)}::bigint[], ${rows.map(({ before }) => before)}::bytea[],
      ${rows.map(({ after }) => after)}::bytea[]
    ) as r (client, before, after)
    where a.client = r.client and a.key = r.before
    returning a.client`;
  return written.map(({ client }) => client);
}
