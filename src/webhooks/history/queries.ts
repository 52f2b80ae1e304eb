/** What was sent, read only: publish writes deliveries, the delivery room ends them and writes attempts. */
import type { ResourceType } from '#commerce/catalogue.ts';
import type { Queryable } from '#database/pool.ts';

/** Whose history: the store stands beside the webhook in every statement. */
export type Owner = { shard: number; storeId: number; id: number };
type Page = { offset: number; limit: number };

/** What a delivery is about; null where retention has dropped the event already. */
type About = {
  eventId: number;
  type: ResourceType | null;
  resourceId: string | null;
  action: string | null;
};

export type DeliveryRow = About & {
  id: number;
  status: 'pending' | 'successful' | 'failed';
  attempts: number;
  dateNext: Date | null;
  dateCreated: Date | null;
  dateEnded: Date | null;
};

const ownedBy = (sql: Queryable, { shard, storeId, id }: Owner) =>
  sql`d.shard = ${shard} and d.store_id = ${storeId} and d.webhook_id = ${id}`;

/**
 * A page of deliveries, newest first. Each half is cut to what the page can need before they are joined. What is pending
 * under an older epoch died with the switch-off that raised it, whether or not it has been swept yet.
 */
export const listDeliveries = async (
  sql: Queryable,
  owner: Owner & { epoch: number },
  { offset, limit }: Page,
): Promise<DeliveryRow[]> => sql<DeliveryRow[]>`
  with page as (
    (select d.id, d.event_id, case when d.epoch < ${owner.epoch} then 'failed' else 'pending' end as status, d.attempts,
        case when d.epoch < ${owner.epoch} then null else d.due_at end as date_next, null::timestamptz as date_ended
      from delivery d where ${ownedBy(sql, owner)} order by d.id desc limit ${offset + limit})
    union all
    (select d.id, d.event_id, d.state, d.attempts, null, d.date_ended
      from delivery_done d where ${ownedBy(sql, owner)} order by d.id desc limit ${offset + limit})
    order by id desc limit ${limit} offset ${offset}
  )
  select p.id, p.event_id as "eventId", p.status, p.attempts, p.date_next as "dateNext", p.date_ended as "dateEnded",
    e.resource_type as type, e.resource_id as "resourceId", e.action, e.date_created as "dateCreated"
  from page p
  left join event e on e.shard = ${owner.shard} and e.id = p.event_id and e.store_id = ${owner.storeId}
  order by p.id desc`;

export const countDeliveries = async (sql: Queryable, owner: Owner): Promise<number> => {
  const [row] = await sql<{ total: number }[]>`
    select (select count(*) from delivery d where ${ownedBy(sql, owner)})
      + (select count(*) from delivery_done d where ${ownedBy(sql, owner)}) as total`;
  return row?.total ?? 0;
};

export type AttemptRow = About & {
  deliveryId: number;
  n: number;
  dateStarted: Date;
  durationMs: number;
  outcome: string;
  responseCode: number | null;
  responseHeaders: string | null;
  responseBody: string | null;
};

/** A page of attempts, newest first. */
export const listAttempts = async (sql: Queryable, owner: Owner, { offset, limit }: Page): Promise<AttemptRow[]> => sql<
  AttemptRow[]
>`
  with page as (
    select d.* from attempt d where ${ownedBy(sql, owner)}
    order by d.date_started desc, d.delivery_id desc, d.n desc limit ${limit} offset ${offset}
  )
  select p.delivery_id as "deliveryId", p.n, p.event_id as "eventId", p.date_started as "dateStarted",
    p.duration_ms as "durationMs", p.outcome, p.response_code as "responseCode",
    p.response_headers as "responseHeaders", p.response_body as "responseBody",
    e.resource_type as type, e.resource_id as "resourceId", e.action
  from page p
  left join event e on e.shard = ${owner.shard} and e.id = p.event_id and e.store_id = ${owner.storeId}
  order by p.date_started desc, p.delivery_id desc, p.n desc`;

export const countAttempts = async (sql: Queryable, owner: Owner): Promise<number> => {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from attempt d where ${ownedBy(sql, owner)}`;
  return row?.total ?? 0;
};
