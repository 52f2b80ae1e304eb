/** How webhooks fare, read only: the delivery room counts their hours and keeps their state. A handful of statements for a hundred. */
import type { Queryable } from '#db/pool.ts';
import type { Histogram } from '#core/histogram.ts';
import type { Key } from '../webhook-sql.ts';
import type { InactiveReason } from '../webhook.ts';

/** What a webhook lacks to be sent anything. */
export type Lack = 'events' | 'url';

export const lacking = (sql: Queryable) => sql`
  case when cardinality(w.events) = 0 then 'events' when w.url is null and not w.is_held then 'url' end`;

export type HealthRow = {
  id: number;
  storeId: number;
  name: string;
  isActive: boolean;
  inactiveReason: InactiveReason | null;
  lacks: Lack | null;
  epoch: number;
  /** The store's. */
  timeZone: string;
  consecutiveFailures: number;
  pausedUntil: Date | null;
  /** When an open breaker lets the next one through; null where it is closed. */
  probeAt: Date | null;
};

type Store = { shard: number; storeId: number };

const selected = (sql: Queryable) => sql`
  select w.id, w.store_id as "storeId", w.name, w.is_active as "isActive", w.inactive_reason as "inactiveReason",
    ${lacking(sql)} as lacks, w.epoch, s.time_zone as "timeZone",
    coalesce(t.consecutive_failures, 0) as "consecutiveFailures", t.paused_until as "pausedUntil", t.probe_at as "probeAt"
  from webhook w
  join store s on s.shard = w.shard and s.id = w.store_id
  left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch`;

export const findHealth = async (sql: Queryable, { shard, id, stores }: Key): Promise<HealthRow | undefined> => {
  const [row] = await sql<HealthRow[]>`
    ${selected(sql)}
    where w.shard = ${shard} and w.id = ${id}
      and (${stores}::bigint[] is null or w.store_id = any (${stores}::bigint[]))`;
  return row;
};

export type Trouble = {
  /** Of the row of failures that is under way, or that ended in the switch-off by which this epoch began; else null. */
  firstFailureAt: Date | null;
  consecutiveFailures: number;
  /** Whether Halcyon switched it off by itself at the end of the epoch before, and nothing was attempted since. */
  wasCondemned: boolean;
  dateCreated: Date;
  /** Of the newest attempt; null where none is kept. */
  outcome: string | null;
  responseCode: number | null;
};

export const findTrouble = async (sql: Queryable, shard: number, id: number): Promise<Trouble | undefined> => {
  const [row] = await sql<Trouble[]>`
    select w.date_created as "dateCreated", t.first_failure_at as "firstFailureAt",
      coalesce(t.consecutive_failures, 0) as "consecutiveFailures",
      coalesce(t.is_condemned and t.epoch < w.epoch, false) as "wasCondemned", a.outcome, a.response_code as "responseCode"
    from webhook w
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id
      and (t.epoch = w.epoch or t.epoch = w.epoch - 1 and t.is_condemned)
    left join lateral (
      select outcome, response_code from attempt
      where shard = w.shard and webhook_id = w.id
      order by date_started desc limit 1
    ) as a on true
    where w.shard = ${shard} and w.id = ${id}`;
  return row;
};

/** Those of a store, the first so many by id. */
export const listHealths = async (sql: Queryable, store: Store, limit: number): Promise<HealthRow[]> => sql<
  HealthRow[]
>`
  ${selected(sql)}
  where w.shard = ${store.shard} and w.store_id = ${store.storeId}
  order by w.id limit ${limit}`;

export type HourRow = { webhookId: number; hour: Date; outcome: string; attempts: number; durations: Histogram };

export const listHours = async (
  sql: Queryable,
  shard: number,
  webhookIds: readonly number[],
  since: Date,
): Promise<HourRow[]> => sql<HourRow[]>`
  select webhook_id as "webhookId", hour, outcome, attempts, durations
  from webhook_hour
  where shard = ${shard} and webhook_id = any (${webhookIds as number[]}::bigint[]) and hour >= ${since}
  order by hour`;

export type PendingRow = { webhookId: number; pending: number; oldestAt: Date | null };

/**
 * What is pending, of the `limit` deliveries of each webhook that are due first: a webhook may have millions, and counting them
 * takes half a second a million. Of an older epoch are those that a switch-off has ended; they are counted among the limit and
 * not told, or looking for others would read all of them.
 */
export const listPending = async (
  sql: Queryable,
  shard: number,
  webhooks: readonly Pick<HealthRow, 'id' | 'epoch'>[],
  limit: number,
): Promise<PendingRow[]> => sql<PendingRow[]>`
  select w.id as "webhookId", p.pending, e.date_created as "oldestAt"
  from unnest(
    ${webhooks.map(({ id }) => id)}::bigint[], ${webhooks.map(({ epoch }) => epoch)}::int[]
  ) as w (id, epoch)
  cross join lateral (
    select count(*) filter (where d.epoch >= w.epoch) as pending, min(d.event_id) filter (where d.epoch >= w.epoch) as oldest
    from (
      select epoch, event_id from delivery
      where shard = ${shard} and webhook_id = w.id and due_at > '-infinity'
      order by due_at, id limit ${limit}
    ) d
  ) p
  left join event e on e.shard = ${shard} and e.id = p.oldest`;

export type LastRow = { webhookId: number; outcome: string; at: Date; responseCode: number | null };

/**
 * The last attempt of a webhook that ended so, looked for among the `limit` newest that began in the hour in which that happened
 * last; none where more came after it.
 */
export const listLast = async (
  sql: Queryable,
  shard: number,
  wanted: readonly { webhookId: number; outcome: string; hour: Date }[],
  limit: number,
): Promise<LastRow[]> => sql<LastRow[]>`
  select w.webhook_id as "webhookId", w.outcome, a.date_started as "at", a.response_code as "responseCode"
  from unnest(
    ${wanted.map(({ webhookId }) => webhookId)}::bigint[], ${wanted.map(({ outcome }) => outcome)}::text[],
    ${wanted.map(({ hour }) => hour)}::timestamptz[]
  ) as w (webhook_id, outcome, hour)
  cross join lateral (
    select n.date_started, n.response_code
    from (
      select date_started, response_code, outcome from attempt
      where shard = ${shard} and webhook_id = w.webhook_id
        and date_started >= w.hour and date_started < w.hour + interval '1 hour'
      order by date_started desc limit ${limit}
    ) n
    where n.outcome = w.outcome
    order by n.date_started desc limit 1
  ) a`;
