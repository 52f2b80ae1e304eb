/** The read-only statements of recoveries, which the module events writes. */
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { RecoveredPart, RecoveryState } from '#events/replay/recovery-sql.ts';
import type { Listing } from '#core/listing.ts';
import type { RECOVERY_PROPERTIES } from './document.ts';

export type RecoveryRow = RecoveredPart & {
  id: number;
  webhookId: number;
  state: RecoveryState;
  eventsTotal: number;
  eventsSeen: number;
  eventsRecovered: number;
  dateCreated: Date;
  dateModified: Date;
  dateEnded: Date | null;
};

/** Returns the state; a recovery of an older epoch is shown as stopped, even before the shard owner has written that. */
const stateOf = (sql: Queryable) => sql`
  case when r.state in ('waiting', 'running') and r.epoch <> w.epoch then 'stopped' else r.state end`;

const selected = (sql: Queryable) => sql`
  select r.id, r.webhook_id as "webhookId", ${stateOf(sql)} as state, r.since, r.until, r.event, r.only_failed as "onlyFailed", r.resource_id as "resourceId",
    r.response_code as "responseCode", r.response_body as "responseBody", r.events_total as "eventsTotal",
    r.events_seen as "eventsSeen", r.events_recovered as "eventsRecovered", r.date_created as "dateCreated",
    r.date_modified as "dateModified", r.date_ended as "dateEnded"
  from recovery r
  join webhook w on w.shard = r.shard and w.id = r.webhook_id`;

type OfWebhook = { shard: number; webhookId: number };

export async function findRecovery(
  sql: Queryable,
  { shard, webhookId, id }: OfWebhook & { id: number },
): Promise<RecoveryRow | undefined> {
  const [row] = await sql<RecoveryRow[]>`
    ${selected(sql)} where r.shard = ${shard} and r.id = ${id} and r.webhook_id = ${webhookId}`;
  return row;
}

const columnsOf = (sql: Queryable): Columns<typeof RECOVERY_PROPERTIES> => ({
  id: sql`r.id`,
  webhook_id: sql`r.webhook_id`,
  state: stateOf(sql),
  since: sql`r.since`,
  until: sql`r.until`,
  event: sql`r.event`,
  only_failed: sql`r.only_failed`,
  resource_id: sql`r.resource_id`,
  response_code: sql`r.response_code`,
  response_body: sql`r.response_body`,
  events_total: sql`r.events_total`,
  events_seen: sql`r.events_seen`,
  events_recovered: sql`r.events_recovered`,
  date_created: sql`r.date_created`,
  date_modified: sql`r.date_modified`,
  date_ended: sql`r.date_ended`,
});

const ofWebhook = (sql: Queryable, { shard, webhookId }: OfWebhook, { filters }: Pick<Listing, 'filters'>) =>
  sql`where r.shard = ${shard} and r.webhook_id = ${webhookId} ${narrowed(sql, filters, columnsOf(sql))}`;

/** Returns a page of a webhook's recoveries, newest first by default. */
export async function listRecoveries(sql: Queryable, webhook: OfWebhook, listing: Listing): Promise<RecoveryRow[]> {
  const order = listing.order.length > 0 ? listing.order : [{ property: 'id', descending: true }];
  return sql<RecoveryRow[]>`
    ${selected(sql)} ${ofWebhook(sql, webhook, listing)}
    order by ${ordered(sql, order, columnsOf(sql), [sql`r.id`])} ${paged(sql, listing)}`;
}

export async function countRecoveries(sql: Queryable, webhook: OfWebhook, listing: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total
    from recovery r
    join webhook w on w.shard = r.shard and w.id = r.webhook_id
    ${ofWebhook(sql, webhook, listing)}`;
  return row?.total ?? 0;
}
