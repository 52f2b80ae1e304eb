/** The read-only statements of webhook health; the module delivery writes the tables. Each reads many webhooks at once. */
import type { Fragment, Queryable } from '#db/pool.ts';
import type { Histogram } from '#core/histogram.ts';
import { lacking, seenBy, type Key, type WebhookRow, hasNotArrived } from '../webhook-sql.ts';
import type { AttemptResult } from '../history/history-documents.ts';
import type { StoreKey } from '#core/ids.ts';

/** What advice about a webhook depends on. */
export type AdvisedWebhook = Pick<
  WebhookRow,
  'id' | 'isActive' | 'inactiveReason' | 'lacks' | 'pausedUntil' | 'consecutiveFailures' | 'timeZone'
>;

export type HealthRow = AdvisedWebhook &
  Pick<WebhookRow, 'storeId' | 'name' | 'epoch'> & {
    /** The first of the current consecutive failures, or of those after which Halcyon disabled the webhook; else null. */
    failingSince: Date | null;
    /** The next probe of an open circuit breaker; null if the breaker is closed. */
    probeAt: Date | null;
  };

/** Returns the beginning of a SELECT of the health of webhooks `w` of stores `s`; `more`: further columns. */
function selectedHealth(sql: Queryable, more = sql``): Fragment {
  return sql`
  select w.id, w.store_id as "storeId", w.name, w.is_active as "isActive", w.inactive_reason as "inactiveReason",
    ${lacking(sql)} as lacks, w.epoch, s.time_zone as "timeZone",
    coalesce(t.consecutive_failures, 0) as "consecutiveFailures", t.paused_until as "pausedUntil", t.probe_at as "probeAt",
    case when w.is_active then t.first_failure_at else p.first_failure_at end as "failingSince" ${more}
  from webhook w
  join store s on s.shard = w.shard and s.id = w.store_id
  left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id and t.epoch = w.epoch
  left join webhook_state p on p.shard = w.shard and p.webhook_id = w.id and p.epoch = w.epoch - 1 and p.is_condemned`;
}

export async function findHealth(sql: Queryable, { shard, id, stores, app }: Key): Promise<HealthRow | undefined> {
  const [row] = await sql<HealthRow[]>`
    ${selectedHealth(sql)}
    where w.shard = ${shard} and w.id = ${id}
      and (${stores}::bigint[] is null or w.store_id = any (${stores}::bigint[])) ${seenBy(sql, app)}`;
  return row;
}

/** With the result of the newest attempt. */
export type FailureState = Pick<WebhookRow, 'consecutiveFailures' | 'dateCreated'> &
  AttemptResult & {
    /** The first of the current consecutive failures, or of those that caused the auto-disable that began this epoch; else null. */
    firstFailureAt: Date | null;
    /** Halcyon disabled the webhook at the end of the previous epoch, and nothing was attempted since. */
    wasAutoDisabled: boolean;
  };

export async function findFailureState(sql: Queryable, shard: number, id: number): Promise<FailureState | undefined> {
  const [row] = await sql<FailureState[]>`
    select w.date_created as "dateCreated", t.first_failure_at as "firstFailureAt",
      coalesce(t.consecutive_failures, 0) as "consecutiveFailures",
      coalesce(t.is_condemned and t.epoch < w.epoch, false) as "wasAutoDisabled", a.outcome, a.response_code as "responseCode"
    from webhook w
    left join webhook_state t on t.shard = w.shard and t.webhook_id = w.id
      and (t.epoch = w.epoch or t.epoch = w.epoch - 1 and t.is_condemned)
    left join lateral (
      select outcome, response_code from attempt_log
      where shard = w.shard and webhook_id = w.id and date_started > '-infinity'
      order by date_started desc limit 1
    ) as a on true
    where w.shard = ${shard} and w.id = ${id}`;
  return row;
}

/** Returns the first `limit` webhooks of a store by id; of those of apps, only the one of `app` if an app calls. */
export function listHealths(sql: Queryable, store: StoreKey, limit: number, app: number | null): Promise<HealthRow[]> {
  return sql<HealthRow[]>`
  ${selectedHealth(sql)}
  where w.shard = ${store.shard} and w.store_id = ${store.storeId} ${seenBy(sql, app)}
  order by w.id limit ${limit}`;
}

/** `lastHour`: the last hour with attempts, if the row is of several hours, the first of which is `hour`. */
export type HourRow = {
  webhookId: number;
  hour: Date;
  lastHour?: Date;
  outcome: string;
  attempts: number;
  durations: Histogram;
};

export function listHours(
  sql: Queryable,
  shard: number,
  webhookIds: readonly number[],
  since: Date,
): Promise<HourRow[]> {
  return sql<HourRow[]>`
  select webhook_id as "webhookId", hour, outcome, attempts, durations
  from webhook_hour
  where shard = ${shard} and webhook_id = any (${webhookIds as number[]}::bigint[]) and hour >= ${since}
  order by hour`;
}

/**
 * Returns the sums of spans of several hours. The database adds them up: a hundred webhooks have 72,000 rows per outcome in 30 days,
 * which take 0.45 s for two outcomes.
 */
export function listSpans(
  sql: Queryable,
  shard: number,
  webhookIds: readonly number[],
  { since, spanHours }: { since: Date; spanHours: number },
): Promise<HourRow[]> {
  return sql<HourRow[]>`
  select webhook_id as "webhookId", date_bin(make_interval(hours => ${spanHours}::int), hour, ${since}) as hour,
    max(hour) as "lastHour", outcome, sum(attempts)::bigint as attempts,
    array[sum(durations[1]), sum(durations[2]), sum(durations[3]), sum(durations[4]), sum(durations[5]), sum(durations[6]),
      sum(durations[7]), sum(durations[8]), sum(durations[9]), sum(durations[10]), sum(durations[11]), sum(durations[12])
    ]::bigint[] as durations
  from webhook_hour
  where shard = ${shard} and webhook_id = any (${webhookIds as number[]}::bigint[]) and hour >= ${since}
  group by 1, 2, outcome
  order by 2`;
}

export type PendingRow = {
  webhookId: number;
  pending: number;
  /** The number of pending deliveries that wait for another attempt. */
  retrying: number;
  oldestAt: Date | null;
  /** When the first is due; null without one, or if all wait for the listener of a pull webhook. */
  nextAt: Date | null;
};

/**
 * Counts pending deliveries among the `limit` of each webhook that are due first: a webhook may have millions, and counting takes
 * half a second per million. Deliveries of an older epoch have failed; they use up the limit but are not counted, because
 * skipping them would read all of them.
 */
export function listPending(
  sql: Queryable,
  shard: number,
  webhooks: readonly Pick<HealthRow, 'id' | 'epoch'>[],
  limit: number,
): Promise<PendingRow[]> {
  return sql<PendingRow[]>`
  select w.id as "webhookId", p.pending, p.retrying, e.date_created as "oldestAt", nullif(p.next, 'infinity') as "nextAt"
  from unnest(
    ${webhooks.map(({ id }) => id)}::bigint[], ${webhooks.map(({ epoch }) => epoch)}::int[]
  ) as w (id, epoch)
  cross join lateral (
    select count(*) filter (where d.epoch >= w.epoch) as pending,
      count(*) filter (where d.epoch >= w.epoch and d.attempts > 0) as retrying, min(d.event_id) filter (where d.epoch >= w.epoch) as oldest,
      min(d.store_id) as store_id,
      min(d.due_at) filter (where d.epoch >= w.epoch) as next
    from (
      select epoch, store_id, event_id, due_at, attempts from delivery
      where shard = ${shard} and webhook_id = w.id and due_at > '-infinity'
      order by due_at, id limit ${limit}
    ) d
  ) p
  left join event e on e.shard = ${shard} and e.store_id = p.store_id and e.id = p.oldest`;
}

/** `since`: the date of the oldest of these events; null without one. */
export type NotArrivedRow = { webhookId: number; count: number; since: Date | null };

/** Failed deliveries that are examined for each that is counted: those of tests and of erased events are not. */
const EXAMINED_PER_COUNTED = 2;

/**
 * Counts the events that did not arrive at each webhook, at most `limit`, the oldest first. The list of deliveries with the filter
 * `not_arrived` has them.
 */
export function listNotArrived(
  sql: Queryable,
  shard: number,
  webhookIds: readonly number[],
  limit: number,
): Promise<NotArrivedRow[]> {
  return sql<NotArrivedRow[]>`
  select w.id as "webhookId", m.count, m.since
  from webhook w
  cross join lateral (
    select count(*) as count, min(e.date_created) as since from (
      select e.date_created
      from (
        select id, event_id from delivery_done
        where shard = ${shard} and webhook_id = w.id and state = 'failed' and resent_as is null
        order by id limit ${limit * EXAMINED_PER_COUNTED}
      ) as d
      cross join lateral (
        select id, resource_type, action, body, date_created from event
        where shard = ${shard} and id = d.event_id and store_id = w.store_id limit 1
      ) as e
      where ${hasNotArrived(sql, shard)}
      limit ${limit}
    ) as e
  ) as m
  where w.shard = ${shard} and w.id = any (${webhookIds as number[]}::bigint[])`;
}

/** Returns the outcome of the last attempt of each webhook that has one. */
export function listLastOutcomes(
  sql: Queryable,
  shard: number,
  webhookIds: readonly number[],
): Promise<{ webhookId: number; outcome: string }[]> {
  return sql<{ webhookId: number; outcome: string }[]>`
  select w.id as "webhookId", a.outcome from unnest(${webhookIds as number[]}::bigint[]) as w (id)
  cross join lateral (
    select outcome from attempt_log
    where shard = ${shard} and webhook_id = w.id and outcome is not null and date_started > '-infinity'
    order by date_started desc limit 1
  ) as a`;
}

export type LastFailureRow = { webhookId: number; outcome: string; at: Date; responseCode: number | null };

/**
 * Returns the last attempt of each webhook with each outcome, searched among the `limit` newest attempts of the given hour; none
 * if more attempts followed it.
 */
export function listLastFailures(
  sql: Queryable,
  shard: number,
  failures: readonly { webhookId: number; outcome: string; hour: Date }[],
  limit: number,
): Promise<LastFailureRow[]> {
  return sql<LastFailureRow[]>`
  select w.webhook_id as "webhookId", w.outcome, a.date_started as "at", a.response_code as "responseCode"
  from unnest(
    ${failures.map(({ webhookId }) => webhookId)}::bigint[], ${failures.map(({ outcome }) => outcome)}::text[],
    ${failures.map(({ hour }) => hour)}::timestamptz[]
  ) as w (webhook_id, outcome, hour)
  cross join lateral (
    select n.date_started, n.response_code
    from (
      select date_started, response_code, outcome from attempt_log
      where shard = ${shard} and webhook_id = w.webhook_id and date_started > '-infinity'
        and date_started >= w.hour and date_started < w.hour + interval '1 hour'
      order by date_started desc limit ${limit}
    ) n
    where n.outcome = w.outcome
    order by n.date_started desc limit 1
  ) a`;
}

export type FailingRow = HealthRow & Pick<WebhookRow, 'client' | 'url'> & { shard: number; storeName: string };

/** The webhooks with the most consecutive failures, and those with the most failed deliveries from `fromId` on: `limit` of each. */
type Most = { fromId: number; limit: number };

/** What a person or an operator has ended on purpose does not fail, whatever it missed. */
const mostFailing = (sql: Queryable, { fromId, limit }: Most) => sql`
  (select t.shard, t.webhook_id from webhook_state t
    join webhook w on w.shard = t.shard and w.id = t.webhook_id and w.is_active and w.epoch = t.epoch
    where t.consecutive_failures > 0 order by t.consecutive_failures desc limit ${limit})
  union
  (select d.shard, d.webhook_id from (
      select shard, webhook_id, count(*) as failed from delivery_done
      where state = 'failed' and resent_as is null and id >= ${fromId}
      group by shard, webhook_id
    ) as d
    join webhook w on w.shard = d.shard and w.id = d.webhook_id
      and (w.is_active or w.inactive_reason is not null and w.inactive_reason <> 'suspended')
    order by d.failed desc limit ${limit})`;

const ofStore = (sql: Queryable, store: StoreKey, { limit }: Most) => sql`
  select shard, id as webhook_id from webhook
  where shard = ${store.shard} and store_id = ${store.storeId} order by id limit ${limit}`;

/** Returns the most failing webhooks of all stores, or the first webhooks of one store. */
export function listFailing(sql: Queryable, most: Most, store?: StoreKey): Promise<FailingRow[]> {
  return sql<FailingRow[]>`
  ${selectedHealth(sql, sql`, w.shard, s.name as "storeName", w.client, w.url`)}
  join (${store === undefined ? mostFailing(sql, most) : ofStore(sql, store, most)}) as f on f.shard = w.shard and f.webhook_id = w.id
  where not w.is_held`;
}
