/** What the read-only statements of deliveries and of attempts share, and those of one delivery. The modules events and delivery write the tables. */
import type { ResourceType } from '#catalog/catalog.ts';
import type { Fragment, Queryable } from '#db/pool.ts';
import type { Filter, Order } from '#core/listing.ts';
import type { AttemptResult } from './history-documents.ts';
import type { StoreKey } from '#core/ids.ts';

/**
 * The webhook whose history is read, as its row was read: the row proves the store. Pending deliveries of an older `epoch` have
 * failed, and none is sent before `heldUntil`.
 */
export type Owner = StoreKey & { id: number; epoch: number; heldUntil: Date | null };

/** The event of a delivery; its members are null if the event has expired. */
export type EventSummary = {
  eventId: number;
  type: ResourceType | null;
  resourceId: string | null;
  action: string | null;
};

export type DeliveryRow = EventSummary & {
  id: number;
  status: 'pending' | 'successful' | 'failed';
  attempts: number;
  dateNext: Date | null;
  dateCreated: Date | null;
  dateEnded: Date | null;
  /** The last delivery that sent the event to the webhook again. */
  resentAs: number | null;
  /** Outcome of the last attempt; null if there was none. */
  outcome: string | null;
  responseCode: number | null;
};

export type AttemptRow = EventSummary & {
  deliveryId: number;
  n: number;
  dateStarted: Date;
  durationMs: number;
  outcome: string;
  responseCode: number | null;
  responseHeaders: string | null;
  responseBody: string | null;
  /** The revision of the webhook with whose settings the request was made; null if none was, or it was not stored. */
  revision: number | null;
};

/** Leaves out store_id, because no index contains it: with it a count reads the rows of all partitions (206 ms, not 51). */
export function ownedBy(sql: Queryable, { shard, id }: { shard: number; id: number | Fragment }) {
  return sql`d.shard = ${shard} and d.webhook_id = ${id}`;
}

/** Joins the event `e` of the delivery or attempt `d`. */
export function withEvent(sql: Queryable, { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>) {
  return sql`left join event e on e.shard = ${shard} and e.id = d.event_id and e.store_id = ${storeId}`;
}

/**
 * The same for the rows that are shown. `limit 1` makes the planner use the primary key whatever its statistics: with those of a nearly
 * empty table the join of `withEvent` read all events of the shard for each row, in one run of many (71 pages a row instead of 14).
 */
export function withShownEvent(sql: Queryable, { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>) {
  return sql`
  left join lateral (
    select * from event where shard = ${shard} and id = d.event_id and store_id = ${storeId} limit 1
  ) as e on true`;
}

/** Joins the last attempt `a` of the delivery `d`; `limit 1` makes the planner use the primary key whatever its statistics. */
export function withLastAttempt(sql: Queryable, { shard }: Pick<Owner, 'shard'>) {
  return sql`
  left join lateral (
    select outcome, response_code, response_body from attempt_log
    where shard = ${shard} and webhook_id = d.webhook_id and delivery_id = d.id and n = d.attempts
      and outcome is not null
    limit 1
  ) as a on true`;
}

/**
 * Joins the response `r` of the last attempt of the delivery `d`. `delivery_done` has the attempt that ended a delivery; one that ended
 * without an attempt of its own, with its webhook, has its last attempt in `attempt`.
 */
export function withResponse(sql: Queryable, { shard }: Pick<Owner, 'shard'>, isEnded: boolean) {
  return sql`
  left join lateral (
    select response_code, response_body from attempt
    where shard = ${shard} and delivery_id = d.id and n = d.attempts ${isEnded ? sql`and d.outcome is null` : sql``}
    limit 1
  ) as r on true`;
}

export function eventColumns(sql: Queryable) {
  return {
    resource_type: sql`e.resource_type`,
    resource_id: sql`e.resource_id`,
    action: sql`e.action`,
    event: sql`e.resource_type || '/' || e.action`,
  };
}

/** Returns whether a filter or an order needs one of these properties. */
export function needs(names: ReadonlySet<string>, filters: readonly Filter[], order: readonly Order[] = []): boolean {
  return [...filters, ...order].some(({ property }) => names.has(property));
}

/** The columns of an attempt `d` and its event `e`. */
export function attemptSelection(sql: Queryable) {
  return sql`
  d.delivery_id as "deliveryId", d.n, d.event_id as "eventId", d.date_started as "dateStarted",
  d.duration_ms as "durationMs", d.outcome, d.response_code as "responseCode", d.response_headers as "responseHeaders",
  d.response_body as "responseBody", d.webhook_revision as revision, e.resource_type as type, e.resource_id as "resourceId", e.action`;
}

/** Returns the last `limit` attempts of a delivery, oldest first. */
export function attemptsAt(
  sql: Queryable,
  owner: Pick<Owner, 'shard' | 'storeId' | 'id'>,
  deliveryId: number,
  limit: number,
): Promise<AttemptRow[]> {
  return sql<AttemptRow[]>`
  select ${attemptSelection(sql)}
  from (
    select * from attempt_log
    where shard = ${owner.shard} and delivery_id = ${deliveryId} and store_id = ${owner.storeId} and webhook_id = ${owner.id}
      and outcome is not null
    order by n desc limit ${limit}
  ) as d ${withShownEvent(sql, owner)}
  order by d.n`;
}

/** Returns when the store was last changed, whose domain is in every request; null if it never was. */
export async function storeChangedAt(
  sql: Queryable,
  { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>,
): Promise<Date | null> {
  const [row] = await sql<{ changedAt: Date | null }[]>`
    select case when date_modified > date_created then date_modified end as "changedAt"
    from store where shard = ${shard} and id = ${storeId}`;
  return row?.changedAt ?? null;
}

/** Returns the result of the newest attempt of the webhook; undefined if there is none. */
export async function newestAttemptOf(
  sql: Queryable,
  { shard, id }: Pick<Owner, 'shard' | 'id'>,
): Promise<AttemptResult | undefined> {
  const [row] = await sql<AttemptResult[]>`
    select outcome, response_code as "responseCode" from attempt_log
    where shard = ${shard} and webhook_id = ${id} and date_started > '-infinity'
    order by date_started desc limit 1`;
  return row;
}

/**
 * Returns the id of the pending delivery whose end this one waits for, because its webhook has the ordering `resource`; null if it
 * waits for none.
 */
export async function precedingOf(
  sql: Queryable,
  { shard }: Pick<Owner, 'shard'>,
  deliveryId: number,
): Promise<number | null> {
  const [row] = await sql<{ id: number }[]>`
    select d.id
    from delivery_order self
    join delivery s on s.shard = self.shard and s.id = self.delivery_id
    join delivery_order o on o.shard = self.shard and o.webhook_id = self.webhook_id
      and o.resource_key = self.resource_key and o.version < self.version
    join delivery d on d.shard = o.shard and d.id = o.delivery_id and d.epoch = s.epoch
    where self.shard = ${shard} and self.delivery_id = ${deliveryId}
    order by o.version desc
    limit 1`;
  return row?.id ?? null;
}
