/** The statements that bring the webhooks of an app in some of its stores to what it declares, and of how far a change has been followed. */
import { filterIdOf } from '#catalog/payload-filter.ts';
import type { ResourceType } from '#catalog/catalog.ts';
import { shardOf, type StoreKey } from '#core/ids.ts';
import { oneOf, type Queryable } from '#db/pool.ts';
import type { StorePage } from './app-access-sql.ts';
import type { WebhookRef } from './app-webhooks-sql.ts';
import type { Declared } from './declared.ts';

/** Returns the number of stores in which the app has a webhook for its own events. */
export async function countDeclaredStores(sql: Queryable, client: number): Promise<number> {
  const { total } = await oneOf(sql<{ total: number }[]>`
    select count(*) as total from webhook where client = ${client} and is_for_app and event_resource = 'app'`);
  return total;
}

/** Returns the next stores in these shards in which the app has a webhook that it declares, by shard and id. */
export async function listDeclaredStores(
  sql: Queryable,
  client: number,
  shards: readonly number[],
  { after, limit }: StorePage,
): Promise<number[]> {
  const rows = await sql<{ shard: number; id: number }[]>`
  select distinct shard, store_id as id from webhook
  where client = ${client} and is_for_app and (shard, store_id) > (${after.shard}::smallint, ${after.storeId}::bigint)
    and shard = any(${shards}::smallint[])
  order by shard, store_id limit ${limit}`;
  return rows.map(({ id }) => id);
}

type Key = Pick<WebhookRef, 'shard' | 'id'>;

/** Locks the webhooks that an app declares in the stores of these shards after one and up to another, in the order of their keys. */
export function lockDeclared(
  sql: Queryable,
  client: number,
  shards: readonly number[],
  { after, last }: { after: StorePage['after']; last: number },
): Promise<(Key & { type: ResourceType | null })[]> {
  return sql<(Key & { type: ResourceType | null })[]>`
  select shard, id, event_resource as type from webhook
  where client = ${client} and is_for_app and (shard, store_id) > (${after.shard}::smallint, ${after.storeId}::bigint)
    and (shard, store_id) <= (${shardOf(last)}::smallint, ${last}::bigint) and shard = any(${shards}::smallint[])
  order by shard, id for update`;
}

const keysOf = (sql: Queryable, webhooks: readonly Key[]) => sql`
  unnest(${webhooks.map(({ shard }) => shard)}::smallint[], ${webhooks.map(({ id }) => id)}::bigint[]) as k (shard, id)`;

/** Deletes locked webhooks. */
export async function deleteDeclared(sql: Queryable, webhooks: readonly Key[]): Promise<void> {
  await sql`delete from webhook w using ${keysOf(sql, webhooks)} where w.shard = k.shard and w.id = k.id`;
}

/**
 * Writes the declared settings to locked webhooks of an app. Each gets another revision, so that workers read its key again. With other
 * settings, those that were disabled because of their failures are enabled, unless the app or the store is suspended.
 */
export async function updateDeclared(
  sql: Queryable,
  webhooks: readonly Key[],
  { url, query, filter, events, isSuspended }: Declared & { url: string; isSuspended: boolean },
  now: Date,
): Promise<void> {
  const differs = sql`(w.url, w.query, w.filter, w.events)
    is distinct from (${url}::text, ${query}::text, ${filter}::text, ${events}::text[])`;
  const revives = sql`(coalesce(w.inactive_reason in ('failures', 'gone'), false) and ${differs} and not ${isSuspended}::boolean
    and exists (select from store s where s.shard = w.shard and s.id = w.store_id and s.suspended_reason is null))`;
  await sql`
  update webhook w set url = ${url}, query = ${query}, filter = ${filter}, filter_id = ${filter && filterIdOf(filter)},
    events = ${events}::text[], is_active = w.is_active or ${revives},
    inactive_reason = case when not ${revives} then w.inactive_reason end, revision = revision + 1,
    date_modified = case when ${differs} then ${now}::timestamptz else w.date_modified end
  from ${keysOf(sql, webhooks)}
  where w.shard = k.shard and w.id = k.id`;
}

/** A change that some stores have not followed. */
export type DeclarationChange = { after: StorePage['after']; followed: number };

/** Makes all stores of an app follow its declaration, from the first one on. */
export async function upsertChange(sql: Queryable, client: number, storesTotal: number): Promise<void> {
  await sql`
    insert into app_webhook_change (client, stores_total) values (${client}, ${storesTotal})
    on conflict (client) do update set after_shard = default, after_store = default, stores_followed = default,
      stores_total = excluded.stores_total`;
}

/** Locks a change; returns undefined if there is none, or another process follows it. */
export async function lockChange(sql: Queryable, client: number): Promise<DeclarationChange | undefined> {
  const [row] = await sql<(StoreKey & { followed: number })[]>`
    select after_shard as shard, after_store as "storeId", stores_followed as followed
    from app_webhook_change where client = ${client} for update skip locked`;
  return row && { after: { shard: row.shard, storeId: row.storeId }, followed: row.followed };
}

/** Writes how far a change has been followed. */
export async function updateChange(
  sql: Queryable,
  client: number,
  { after, followed }: DeclarationChange,
): Promise<void> {
  await sql`
    update app_webhook_change set after_shard = ${after.shard}, after_store = ${after.storeId}, stores_followed = ${followed},
      stores_total = greatest(stores_total, ${followed})
    where client = ${client}`;
}

export async function deleteChange(sql: Queryable, client: number): Promise<void> {
  await sql`delete from app_webhook_change where client = ${client}`;
}

/** Returns the apps with changes that some stores have not followed. */
export async function listChanging(sql: Queryable): Promise<number[]> {
  const rows = await sql<{ client: number }[]>`select client from app_webhook_change order by client`;
  return rows.map(({ client }) => client);
}

/** How many of the stores of an app have followed the last change of its declaration. */
export type Progress = { client: number; followed: number; total: number };

/** Returns the progress of those of these apps with a change that some stores have not followed. */
export function listProgress(sql: Queryable, clients: readonly number[]): Promise<Progress[]> {
  return sql<Progress[]>`
    select client, stores_followed as followed, stores_total as total from app_webhook_change
    where client = any(${clients}::bigint[])`;
}
