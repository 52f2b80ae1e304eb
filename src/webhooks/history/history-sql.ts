/** What was sent, read only: publish writes deliveries, the delivery room ends them and writes attempts. */
import type { ResourceType } from '#catalog/catalog.ts';
import { narrowed, ordered, paged, type Columns } from '#db/listing.ts';
import type { Queryable } from '#db/pool.ts';
import type { Filter, Listing, Order } from '#core/listing.ts';
import type { LOG_PROPERTIES, STATUS_PROPERTIES } from './document.ts';

/**
 * Whose history: the store stands beside the webhook in every statement; the epoch tells what is dead, and before `heldUntil`
 * nothing that is pending is sent.
 */
export type Owner = { shard: number; storeId: number; id: number; epoch: number; heldUntil: Date | null };

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
  /** Of the last attempt, where there was one. */
  outcome: string | null;
  responseCode: number | null;
};

const ownedBy = (sql: Queryable, { shard, storeId, id }: Owner) =>
  sql`d.shard = ${shard} and d.store_id = ${storeId} and d.webhook_id = ${id}`;

/** Beside the row `d` of a delivery or an attempt, the event that it is about. */
export const withEvent = (sql: Queryable, { shard, storeId }: Pick<Owner, 'shard' | 'storeId'>) =>
  sql`left join event e on e.shard = ${shard} and e.id = d.event_id and e.store_id = ${storeId}`;

/** Beside the row `d` of a delivery its last attempt `a`; `limit 1` for a look by its key, whatever the planner believes. */
export const withLastAttempt = (sql: Queryable, { shard }: Pick<Owner, 'shard'>) => sql`
  left join lateral (
    select outcome, response_code from attempt
    where shard = ${shard} and delivery_id = d.id and n = d.attempts limit 1
  ) as a on true`;

const eventColumns = (sql: Queryable) => ({
  resource_type: sql`e.resource_type`,
  resource_id: sql`e.resource_id`,
  event: sql`e.resource_type || '/' || e.action`,
});

const LOG_BY_EVENT = new Set(['resource_type', 'resource_id', 'event']);
/** A delivery begins with its event. */
const STATUS_BY_EVENT = LOG_BY_EVENT.union(new Set(['date_created']));

/**
 * The event where something is found or ordered by it; else none is read but those of the page that is shown. With 100,000
 * deliveries of one webhook: the newest 2 ms, `status=failed` 15 ms to find and as much to count, without an index that
 * every delivery would have to write; by the event 100 to 500 ms.
 */
const eventFor = (
  sql: Queryable,
  owner: Owner,
  byEvent: ReadonlySet<string>,
  ...named: readonly (readonly (Filter | Order)[])[]
) => (named.flat().some(({ property }) => byEvent.has(property)) ? withEvent(sql, owner) : sql``);

type Fragment = ReturnType<typeof withEvent>;

const deliveryColumns = (
  sql: Queryable,
  own: Record<'status' | 'date_next' | 'date_ended', Fragment>,
): Columns<typeof STATUS_PROPERTIES> => ({
  id: sql`d.id`,
  webhook_id: sql`d.webhook_id`,
  attempts: sql`d.attempts`,
  date_created: sql`e.date_created`,
  ...eventColumns(sql),
  ...own,
});

/**
 * The two halves of the deliveries: what is pending, and what has ended. What is pending under an older epoch died with
 * the switch-off that raised it, whether or not it has been swept yet.
 */
const halvesOf = (sql: Queryable, { epoch, heldUntil }: Owner) => [
  {
    table: sql`delivery`,
    columns: deliveryColumns(sql, {
      status: sql`case when d.epoch < ${epoch} then 'failed' else 'pending' end`,
      // What waits for a listener is due at infinity: nobody knows when that comes.
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

/** A page of deliveries, newest first unless asked otherwise. Each half is cut to what the page can need before they meet. */
export const listDeliveries = async (sql: Queryable, owner: Owner, wanted: Listing): Promise<DeliveryRow[]> => {
  const { filters, offset, limit } = wanted;
  const order = wanted.order.length > 0 ? wanted.order : [{ property: 'id', descending: true }];
  const ties = [sql`d.id`] as const;
  const halves = halvesOf(sql, owner).map(
    ({ table, columns }) => sql`(
      select d.id, d.event_id, d.webhook_id, ${columns.status} as status, d.attempts, ${columns.date_next} as date_next,
        ${columns.date_ended} as date_ended
      from ${table} d ${eventFor(sql, owner, STATUS_BY_EVENT, filters, order)}
      where ${ownedBy(sql, owner)} ${narrowed(sql, filters, columns)}
      order by ${ordered(sql, order, columns, ties)} limit ${offset + limit})`,
  );
  const met = deliveryColumns(sql, {
    status: sql`d.status`,
    date_next: sql`d.date_next`,
    date_ended: sql`d.date_ended`,
  });
  const sorted = sql`order by ${ordered(sql, order, met, ties)}`;
  return sql<DeliveryRow[]>`
    with found as (
      ${halves.reduce((pending, ended) => sql`${pending} union all ${ended}`)}
    ), page as (
      select d.* from found d ${eventFor(sql, owner, STATUS_BY_EVENT, order)} ${sorted} ${paged(sql, wanted)}
    )
    select d.id, d.event_id as "eventId", d.status, d.attempts, d.date_next as "dateNext", d.date_ended as "dateEnded",
      e.resource_type as type, e.resource_id as "resourceId", e.action, e.date_created as "dateCreated", a.outcome,
      a.response_code as "responseCode"
    from page d ${withEvent(sql, owner)} ${withLastAttempt(sql, owner)} ${sorted}`;
};

export const countDeliveries = async (sql: Queryable, owner: Owner, { filters }: Listing): Promise<number> => {
  const counts = halvesOf(sql, owner).map(
    ({ table, columns }) => sql`(
      select count(*) from ${table} d ${eventFor(sql, owner, STATUS_BY_EVENT, filters)}
      where ${ownedBy(sql, owner)} ${narrowed(sql, filters, columns)})`,
  );
  const [row] = await sql<{ total: number }[]>`
    select ${counts.reduce((pending, ended) => sql`${pending} + ${ended}`)} as total`;
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

/** The row of an attempt `d` with its event `e`. */
export const attemptTold = (sql: Queryable) => sql`
  d.delivery_id as "deliveryId", d.n, d.event_id as "eventId", d.date_started as "dateStarted",
  d.duration_ms as "durationMs", d.outcome, d.response_code as "responseCode", d.response_headers as "responseHeaders",
  d.response_body as "responseBody", e.resource_type as type, e.resource_id as "resourceId", e.action`;

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

/** A page of attempts, newest first unless asked otherwise: found by their keys, since what came back is up to 16 KiB each. */
export const listAttempts = async (sql: Queryable, owner: Owner, wanted: Listing): Promise<AttemptRow[]> => {
  const order = wanted.order.length > 0 ? wanted.order : [{ property: 'date_created', descending: true }];
  const columns = attemptColumns(sql);
  const sorted = sql`order by ${ordered(sql, order, columns, [sql`d.delivery_id`, sql`d.n`])}`;
  return sql<AttemptRow[]>`
    with page as (
      select d.delivery_id, d.n from attempt d ${eventFor(sql, owner, LOG_BY_EVENT, wanted.filters, order)}
      where ${ownedBy(sql, owner)} ${narrowed(sql, wanted.filters, columns)}
      ${sorted} ${paged(sql, wanted)}
    )
    select ${attemptTold(sql)}
    from page p join attempt d on ${ownedBy(sql, owner)} and d.delivery_id = p.delivery_id and d.n = p.n
      ${withEvent(sql, owner)} ${sorted}`;
};

export const countAttempts = async (sql: Queryable, owner: Owner, { filters }: Listing): Promise<number> => {
  const [row] = await sql<{ total: number }[]>`
    select count(*) as total from attempt d ${eventFor(sql, owner, LOG_BY_EVENT, filters)}
    where ${ownedBy(sql, owner)} ${narrowed(sql, filters, attemptColumns(sql))}`;
  return row?.total ?? 0;
};
