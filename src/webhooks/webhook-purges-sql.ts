/** The keys of webhooks after their rotation, their past versions, and the webhooks of apps that are no longer installed. */
import type { Queryable, Sql } from '#db/pool.ts';
import { purgesOf, type OrderedTable, type Purge } from '#db/purges.ts';
import { inEach, type EachDatabase } from '#shards/map.ts';
import { deleteDeclarations, listWithoutApp, moveAppKeys } from './app-access/declarations-sql.ts';

/** Removes keys whose rotation has ended. They are already invalid, and are removed so that no later backup contains them. */
export function createWebhookPurges({ sql, retentionDays }: { sql: Sql; retentionDays: number }): readonly Purge[] {
  return purgesOf(sql, [
    { name: 'rotated_keys', by: moveKeys },
    { name: 'webhooks_of_apps', by: deleteUninstalled, keptMs: UNINSTALLED_KEPT_DAYS * DAY_MS },
    { name: 'webhooks_of_erased_stores', by: (_, _before, limit) => deleteOfErasedStores(sql, limit) },
    {
      name: 'operator_events',
      deletes: 'operator_outbox',
      key: 'id',
      expires: 'date_created',
      keptMs: UNPUBLISHED_KEPT_DAYS * DAY_MS,
    },
    {
      name: 'webhook_versions',
      deletes: 'webhook_version',
      key: 'ctid',
      expires: 'date_replaced',
      // The attempts of a day are dropped within the day after their retention.
      keptMs: (retentionDays + 1) * DAY_MS,
    },
  ]);
}

/** Removes the declarations of apps, which the home database has. `each`: all databases, which may have webhooks of an app. */
export function createDeclarationPurges({ sql, each }: { sql: Sql; each: EachDatabase }): readonly Purge[] {
  return purgesOf(sql, [
    { name: 'rotated_app_keys', by: moveAppKeys },
    { name: 'app_webhooks', by: (_sql, _before, limit) => deleteUndeclared(sql, each, limit) },
  ]);
}

const DAY_MS = 86_400_000;
/** Events for the operator wait this long, if the platform store does not exist. */
const UNPUBLISHED_KEPT_DAYS = 30;
/** Longer than the retries of the last event. */
const UNINSTALLED_KEPT_DAYS = 30;

/** Returns those of these apps that have a webhook in the database. */
async function listWithWebhook(sql: Queryable, clients: readonly number[]): Promise<number[]> {
  const rows = await sql<{ client: number }[]>`
    select c.id as client from unnest(${clients}::bigint[]) as c (id)
    where exists (select from webhook w where w.client = c.id and w.is_for_app)
  `;
  return rows.map(({ client }) => client);
}

/** Deletes the declarations of apps that were deleted, after their last webhook. */
async function deleteUndeclared(sql: Queryable, each: EachDatabase, limit: number): Promise<number> {
  for (let after = 0; ;) {
    const clients = await listWithoutApp(sql, { after, limit });
    const used = new Set(await inEach(each, (database) => listWithWebhook(database, clients)));
    const unused = clients.filter((client) => !used.has(client));
    const last = clients.at(-1);
    if (unused.length > 0 || last === undefined) return deleteDeclarations(sql, unused);
    after = last;
  }
}

/** Deletes the webhooks of apps that lost their access to the store before. Locked rows are skipped. */
async function deleteUninstalled(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from webhook where ctid = any(array(
      select ctid from webhook where is_for_app and app_scope is null and date_modified <= ${before}
      order by date_modified limit ${limit} for update skip locked
    ))
  `;
  return count;
}

/** The webhooks that apps declare stay in erased stores; the record of the store is deleted after them. */
export const WEBHOOKS_OF_STORES: OrderedTable = { deletes: 'webhook', order: ['id'] };

/**
 * Deletes the webhooks of erased stores whose deliveries since the erasure have ended. Locked rows are skipped. With `not exists`, or without the
 * order, the planner may read all deliveries.
 */
async function deleteOfErasedStores(sql: Queryable, limit: number): Promise<number> {
  const { count } = await sql`
    delete from webhook where ctid = any(array(
      select w.place from erased_store e
      cross join lateral (
        select w.ctid as place from webhook w
        where w.shard = e.shard and w.store_id = e.id and (
          select 1 from delivery d
          where d.shard = w.shard and d.webhook_id = w.id and d.due_at > '-infinity' and d.epoch = w.epoch
          order by d.due_at, d.id limit 1
        ) is null
        order by w.id for update skip locked
      ) as w
      limit ${limit}
    ))
  `;
  return count;
}

/**
 * Moves the next key into the place of the current one. The rows are selected through an index as an array, because the planner
 * may read the whole table for a join; locked rows are skipped. The revision stays, because the visible state does not change.
 */
async function moveKeys(sql: Queryable, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    update webhook set encryption_key = next_encryption_key, next_encryption_key = null,
      rotated_at = rotation_ends_at, rotation_ends_at = null
    where ctid = any(array(
      select ctid from webhook where rotation_ends_at <= ${before}
      order by rotation_ends_at limit ${limit} for update skip locked
    ))
  `;
  return count;
}
