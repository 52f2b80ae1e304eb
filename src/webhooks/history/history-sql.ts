/** The read-only statements of deliveries and attempts, which the modules events and delivery write. */
import type { ResourceType } from '#catalog/catalog.ts';
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Filter, Listing, Order } from '#core/listing.ts';
import type { LOG_PROPERTIES, STATUS_PROPERTIES } from './document.ts';

/**
 * The webhook whose history is read; every statement names its store too. Pending deliveries of an older `epoch` have failed, and
 * none is sent before `heldUntil`.
 */
export type Owner = { shard: number; storeId: number; id: number; epoch: number; heldUntil: Date | null };

/** The event of a delivery; its members are null if the event has expired. */
type EventSummary = {
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
  /** Outcome of the last attempt; null if there was none. */
  outcome: string | null;
  responseCode: number | null;
};

const ownedBy = (sql: Queryable, { shard, storeId, id }: Owner) =>
  sql`d.shard = ${shard} and d.store_id = ${storeId} and d.webhook_id = ${id}`;

/** Joins the event `e` of the delivery or attempt `d`. */
export function withEvent(sql: Queryable, { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>) {
  return sql`left join event e on e.shard = ${shard} and e.id = d.event_id and e.store_id = ${storeId}`;
}

/** Joins the last attempt `a` of the delivery `d`; `limit 1` makes the planner use the primary key whatever its statistics. */
export function withLastAttempt(sql: Queryable, { shard }: Pick<Owner, 'shard'>) {
  return sql`
  left join lateral (
    select outcome, response_code from attempt_log
    where shard = ${shard} and webhook_id = d.webhook_id and delivery_id = d.id and n = d.attempts
      and outcome is not null
    limit 1
  ) as a on true`;
}

const eventColumns = (sql: Queryable) => ({
  resource_type: sql`e.resource_type`,
  resource_id: sql`e.resource_id`,
  event: sql`e.resource_type || '/' || e.action`,
});

const LOG_BY_EVENT = new Set(['resource_type', 'resource_id', 'event']);
/** The creation date of a delivery is that of its event. */
const STATUS_BY_EVENT = LOG_BY_EVENT.union(new Set(['date_created']));

/**
 * Joins the event only if a filter or an order needs it; otherwise only the events of the shown page are read. With 100,000
 * deliveries of one webhook: the newest take 2 ms, `status=failed` 15 ms to find and as much to count, without an index that
 * every delivery would have to write; filters by event take 100 to 500 ms.
 */
const eventFor = (
  sql: Queryable,
  owner: Owner,
  byEvent: ReadonlySet<string>,
  ...properties: readonly (readonly (Filter | Order)[])[]
) => (properties.flat().some(({ property }) => byEvent.has(property)) ? withEvent(sql, owner) : sql``);

type Fragment = ReturnType<typeof withEvent>;

const deliveryColumns = (
  sql: Queryable,
  stateColumns: Record<'status' | 'date_next' | 'date_ended', Fragment>,
): Columns<typeof STATUS_PROPERTIES> => ({
  id: sql`d.id`,
  webhook_id: sql`d.webhook_id`,
  attempts: sql`d.attempts`,
  date_created: sql`e.date_created`,
  ...eventColumns(sql),
  ...stateColumns,
});

/**
 * Returns the tables of pending and ended deliveries with their columns. A pending delivery of an older epoch is shown as failed,
 * even before a worker has ended it.
 */
const pendingAndEnded = (sql: Queryable, { epoch, heldUntil }: Owner) => [
  {
    table: sql`delivery`,
    columns: deliveryColumns(sql, {
      status: sql`case when d.epoch < ${epoch} then 'failed' else 'pending' end`,
      // Deliveries of pull webhooks are due at infinity, which is shown as null.
      date_next: sql`case when d.epoch >= ${epoch} then
        greatest(nullif(d.due_at, 'infinity'), ${heldUntil}::timestamptz) end`,
      date_ended: sql`null::timestamptz`,
    }),
  },
  {
    table: sql`delivery_done`,
    columns: deliveryColumns(sql, {
      status: sql`d.state`,
      date_next: sql`null::timestamptz`,
      date_ended: sql`d.date_ended`,
    }),
  },
];

/**
 * Returns a page of deliveries, newest first by default. Each table is limited to the rows that the page can need before the
 * union.
 */
export async function listDeliveries(sql: Queryable, owner: Owner, listing: Listing): Promise<DeliveryRow[]> {
  const { filters, offset, limit } = listing;
  const order = listing.order.length > 0 ? listing.order : [{ property: 'id', descending: true }];
  const ties = [sql`d.id`] as const;
  const parts = pendingAndEnded(sql, owner).map(
    ({ table, columns }) => sql`(
      select d.id, d.event_id, d.webhook_id, ${columns.status} as status, d.attempts, ${columns.date_next} as date_next,
        ${columns.date_ended} as date_ended
      from ${table} d ${eventFor(sql, owner, STATUS_BY_EVENT, filters, order)}
      where ${ownedBy(sql, owner)} ${narrowed(sql, filters, columns)}
      order by ${ordered(sql, order, columns, ties)} limit ${offset + limit})`,
  );
  const merged = deliveryColumns(sql, {
    status: sql`d.status`,
    date_next: sql`d.date_next`,
    date_ended: sql`d.date_ended`,
  });
  const sorted = sql`order by ${ordered(sql, order, merged, ties)}`;
  return sql<DeliveryRow[]>`
    with found as (
      ${parts.reduce((pending, ended) => sql`${pending} union all ${ended}`)}
    ), page as (
      select d.* from found d ${eventFor(sql, owner, STATUS_BY_EVENT, order)} ${sorted} ${paged(sql, listing)}
    )
    select d.id, d.event_id as "eventId", d.status, d.attempts, d.date_next as "dateNext", d.date_ended as "dateEnded",
      e.resource_type as type, e.resource_id as "resourceId", e.action, e.date_created as "dateCreated", a.outcome,
      a.response_code as "responseCode"
    from page d ${withEvent(sql, owner)} ${withLastAttempt(sql, owner)} ${sorted}`;
}

export async function countDeliveries(sql: Queryable, owner: Owner, { filters }: Listing): Promise<number> {
  const counts = pendingAndEnded(sql, owner).map(
    ({ table, columns }) => sql`(
      select count(*) from ${table} d ${eventFor(sql, owner, STATUS_BY_EVENT, filters)}
      where ${ownedBy(sql, owner)} ${narrowed(sql, filters, columns)})`,
  );
  const [row] = await sql<{ total: number }[]>`
    select ${counts.reduce((pending, ended) => sql`${pending} + ${ended}`)} as total`;
  return row?.total ?? 0;
}

export type AttemptRow = EventSummary & {
  deliveryId: number;
  n: number;
  dateStarted: Date;
  durationMs: number;
  outcome: string;
  responseCode: number | null;
  responseHeaders: string | null;
  responseBody: string | null;
};

/** The columns of an attempt `d` and its event `e`. */
export function attemptSelection(sql: Queryable) {
  return sql`
  d.delivery_id as "deliveryId", d.n, d.event_id as "eventId", d.date_started as "dateStarted",
  d.duration_ms as "durationMs", d.outcome, d.response_code as "responseCode", d.response_headers as "responseHeaders",
  d.response_body as "responseBody", e.resource_type as type, e.resource_id as "resourceId", e.action`;
}

const attemptColumns = (sql: Queryable): Columns<typeof LOG_PROPERTIES> => ({
  id: sql`d.delivery_id || '-' || d.n`,
  webhook_id: sql`d.webhook_id`,
  attempt: sql`d.n`,
  response_code: sql`d.response_code`,
  duration: sql`d.duration_ms`,
  outcome: sql`d.outcome`,
  date_created: sql`d.date_started`,
  ...eventColumns(sql),
});

/** All attempts, by the index of the webhook's log. */
const inLog = (sql: Queryable) => sql`and d.date_started > '-infinity'`;

/** Returns a page of attempts, newest first by default. Selects the keys first, because responses have up to 16 KiB each. */
export async function listAttempts(sql: Queryable, owner: Owner, listing: Listing): Promise<AttemptRow[]> {
  const order = listing.order.length > 0 ? listing.order : [{ property: 'date_created', descending: true }];
  const columns = attemptColumns(sql);
  const sorted = sql`order by ${ordered(sql, order, columns, [sql`d.delivery_id`, sql`d.n`])}`;
  return sql<AttemptRow[]>`
    with page as (
      select d.delivery_id, d.n from attempt_log d ${eventFor(sql, owner, LOG_BY_EVENT, listing.filters, order)}
      where ${ownedBy(sql, owner)} ${inLog(sql)} ${narrowed(sql, listing.filters, columns)}
      ${sorted} ${paged(sql, listing)}
    )
    select ${attemptSelection(sql)}
    from page p join attempt_log d on ${ownedBy(sql, owner)} and d.delivery_id = p.delivery_id and d.n = p.n
      and d.outcome is not null
      ${withEvent(sql, owner)} ${sorted}`;
}

export async function countAttempts(sql: Queryable, owner: Owner, { filters }: Listing): Promise<number> {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from attempt_log d ${eventFor(sql, owner, LOG_BY_EVENT, filters)}
    where ${ownedBy(sql, owner)} ${inLog(sql)} ${narrowed(sql, filters, attemptColumns(sql))}`;
  return row?.total ?? 0;
}
