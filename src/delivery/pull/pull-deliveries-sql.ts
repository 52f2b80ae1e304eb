/** Statements about pull deliveries: they are due at infinity, which no lane fetches. */
import type { Queryable } from '#db/pool.ts';
import type { AttemptRow } from '../attempt/attempt.ts';
import type { EventRow } from '../delivery-sql.ts';

export type PullWebhook = { shard: number; webhookId: number };

/** `isSent`: sent on this stream and not answered yet. */
export type Waiting = { id: number; eventId: number; isSent: boolean };

/**
 * Returns the unanswered deliveries of those sent on a stream, and unsent ones up to `limit` in all. An id cursor would
 * miss some, because ids commit out of order. Deliveries of an older epoch have failed and are not returned.
 */
export async function listWaiting(
  sql: Queryable,
  { shard, webhookId }: PullWebhook,
  sent: readonly number[],
  limit: number,
): Promise<Waiting[]> {
  return sql<Waiting[]>`
  with webhook_now as materialized (
    select epoch from webhook where shard = ${shard} and id = ${webhookId}
  ), unanswered as materialized (
    select d.id, d.event_id from delivery d join webhook_now w on w.epoch = d.epoch
    where d.shard = ${shard} and d.id = any (${sent}::bigint[])
  )
  select id, event_id as "eventId", true as "isSent" from unanswered
  union all (
    select d.id, d.event_id, false from delivery d join webhook_now w on w.epoch = d.epoch
    where d.shard = ${shard} and d.webhook_id = ${webhookId} and d.due_at = 'infinity' and d.id <> all (${sent}::bigint[])
    order by d.due_at, d.id
    limit greatest(0, ${limit} - (select count(*) from unanswered))
  )`;
}

/**
 * Ends a pull delivery with its only attempt, or without one if its event was erased or dropped, in one statement; returns false if it
 * is not pending. The inserted row derives from the deleted one, so of two concurrent answers one is written.
 */
export async function endPullDelivery(
  sql: Queryable,
  { shard, webhookId, id }: PullWebhook & { id: number },
  attempt: AttemptRow | null,
  now: Date,
): Promise<boolean> {
  const rows = await sql`
    with ended as (
      delete from delivery
      where shard = ${shard} and id = ${id} and webhook_id = ${webhookId} and due_at = 'infinity'
      returning *
    )
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended, date_started,
      duration_ms, outcome, response_code, response_headers, response_body)
    select shard, id, store_id, webhook_id, event_id, ${attempt?.state ?? 'failed'}, greatest(attempts, ${attempt === null ? 0 : 1}), ${now},
      ${attempt?.startedAt ?? null}, ${attempt?.durationMs ?? null}, ${attempt?.outcome ?? null}, ${attempt?.responseCode ?? null},
      ${attempt?.responseHeaders ?? null}, ${attempt?.responseBody ?? null}
    from ended
    returning 1`;
  return rows.length > 0;
}

/** An attempt and its event; the event's fields are null if it was deleted. */
export type AnsweredRow = Omit<AttemptRow, 'state' | 'startedAt'> & {
  deliveryId: number;
  n: number;
  eventId: number;
  type: EventRow['type'] | null;
  resourceId: string | null;
  action: string | null;
  dateStarted: Date;
};

/** Returns the recorded answer; `ended` if the delivery ended without one, `unknown` if it does not exist. */
export async function findAnswer(
  sql: Queryable,
  { shard, webhookId, id }: PullWebhook & { id: number },
): Promise<AnsweredRow | 'ended' | 'unknown'> {
  const [row] = await sql<(AnsweredRow | { n: null })[]>`
    select d.id as "deliveryId", a.n, d.event_id as "eventId", a.date_started as "dateStarted", a.duration_ms as "durationMs",
      a.outcome, a.response_code as "responseCode", a.response_headers as "responseHeaders",
      a.response_body as "responseBody", a.webhook_revision as revision, e.resource_type as type, e.resource_id as "resourceId", e.action
    from delivery_done d
    left join attempt_log a on a.shard = d.shard and a.webhook_id = d.webhook_id and a.delivery_id = d.id and a.n = 1
      and a.outcome is not null
    left join event e on e.shard = d.shard and e.store_id = d.store_id and e.id = d.event_id
    where d.shard = ${shard} and d.id = ${id} and d.webhook_id = ${webhookId}`;
  if (row === undefined) return 'unknown';
  return row.n === null ? 'ended' : row;
}

/** Larger than any epoch: all deliveries of a deleted webhook have failed. */
const EPOCH_MAX = 2 ** 31 - 1;

/**
 * Ends deliveries of an older epoch, of a deleted webhook, or older than `oldest`, among the first `limit` deliveries
 * after `after`. In pages, because scanning a million live deliveries took 0.4 s each time; failed ones are older than
 * live ones and therefore come first, apart from ids allocated out of order, which a later call finds.
 *
 * Returns the number of ended deliveries and the last id of the page: ended rows stay in the index while an old
 * transaction is open, so scanning from the start became slower each time.
 */
export async function endUnfetched(
  sql: Queryable,
  { shard, webhookId }: PullWebhook,
  { after, limit, oldest }: { after: number; limit: number; oldest: number },
  now: Date,
): Promise<{ ended: number; last: number | null }> {
  const [row] = await sql<{ ended: number; last: number | null }[]>`
    with held_first as materialized (
      select id, epoch from delivery
      where shard = ${shard} and webhook_id = ${webhookId} and due_at = 'infinity' and id > ${after}
      order by due_at, id
      limit ${limit}
    ), expired as materialized (
      select d.ctid as place from delivery d
      where d.shard = ${shard} and d.id = any (array(select id from held_first where id < ${oldest} or epoch < coalesce(
        (select w.epoch from webhook w where w.shard = ${shard} and w.id = ${webhookId}), ${EPOCH_MAX})))
      for update skip locked
    ), ended as (
      delete from delivery d using expired where d.ctid = expired.place
      returning d.*
    ), done as (
      insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
      select shard, id, store_id, webhook_id, event_id, 'failed', attempts, ${now} from ended
    )
    select (select count(*)::int from ended) as ended, (select max(id) from held_first) as last`;
  return row ?? { ended: 0, last: null };
}
