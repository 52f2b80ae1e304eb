/** The read-only statements of recoveries, which the module events writes. */
import { narrowed, ordered, paged } from '#db/list-conditions.ts';
import type { Queryable } from '#db/pool.ts';
import type { Listing } from '#core/listing.ts';
import { columnsOf } from '#http/field-columns-sql.ts';
import type { RowOf } from '#http/field-table.ts';
import type { WebhookKey } from '#events/replay/recoveries-sql.ts';
import { recoveryFields } from './recovery.ts';

const fields = columnsOf(recoveryFields, 'r');

export type RecoveryRow = RowOf<typeof recoveryFields>;

/** Returns the state; a recovery of an older epoch is shown as stopped, even before the shard owner has written that. */
const stateOf = (sql: Queryable) => sql`
  case when r.state in ('waiting', 'running') and r.epoch <> w.epoch then 'stopped' else r.state end`;

const computed = (sql: Queryable) => ({ state: stateOf(sql), loaded: sql`r.loaded_type is not null` });

const selected = (sql: Queryable) => sql`
  select ${fields.selected(sql, computed(sql))}
  from recovery r
  join webhook w on w.shard = r.shard and w.id = r.webhook_id`;

export async function findRecovery(
  sql: Queryable,
  { shard, webhookId, id }: WebhookKey & { id: number },
): Promise<RecoveryRow | undefined> {
  const [row] = await sql<RecoveryRow[]>`
    ${selected(sql)} where r.shard = ${shard} and r.id = ${id} and r.webhook_id = ${webhookId}`;
  return row;
}

const compared = (sql: Queryable) => fields.compared(sql, computed(sql));

const ofWebhook = (sql: Queryable, { shard, webhookId }: WebhookKey, { filters }: Pick<Listing, 'filters'>) =>
  sql`where r.shard = ${shard} and r.webhook_id = ${webhookId} ${narrowed(sql, filters, compared(sql))}`;

/** Returns a page of a webhook's recoveries, newest first by default. */
export async function listRecoveries(sql: Queryable, webhook: WebhookKey, listing: Listing): Promise<RecoveryRow[]> {
  const order = listing.order.length > 0 ? listing.order : [{ property: 'id', descending: true }];
  return sql<RecoveryRow[]>`
    ${selected(sql)} ${ofWebhook(sql, webhook, listing)}
    order by ${ordered(sql, order, compared(sql), [sql`r.id`])} ${paged(sql, listing)}`;
}

export async function countRecoveries(sql: Queryable, webhook: WebhookKey, listing: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total
    from recovery r
    join webhook w on w.shard = r.shard and w.id = r.webhook_id
    ${ofWebhook(sql, webhook, listing)}`;
  return row?.total ?? 0;
}
