/** The statements of the events for the operator, until they are published. */
import { OPERATOR_EVENT } from '#catalog/catalog.ts';
import type { OperatorEvent } from '#catalog/internal-types.ts';
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import { announceWorking, type Queryable } from '#db/pool.ts';
import type { InternalEvent } from '#events/publish/internal-event.ts';
import { hasNotArrived } from '../webhook-sql.ts';

type OperatorAction = (InternalEvent & { type: typeof OPERATOR_EVENT })['action'];

/** What an event is about, as its properties; absent for null. `date_from` is in ISO 8601. */
type Concern = Pick<OperatorEvent, 'store_id'> & Partial<Omit<OperatorEvent, 'id' | 'store_id' | 'date_created'>>;

export type Happened = { action: OperatorAction; body: Concern };

export async function insertHappened(tx: Queryable, happened: readonly Happened[], now: Date): Promise<void> {
  await tx`
    insert into operator_outbox (action, body, date_created)
    select h.action, h.body::json, ${now}
    from unnest(
      ${happened.map(({ action }) => action)}::text[], ${happened.map(({ body }) => JSON.stringify(body))}::text[]
    ) as h (action, body)`;
  await announceWorking(tx);
}

export async function hasWaiting(sql: Queryable): Promise<boolean> {
  const rows = await sql`select from operator_outbox limit 1`;
  return rows.length > 0;
}

export type WaitingEvent = Happened & { id: number; dateCreated: Date };

/** Locks the oldest events that no other process publishes. */
export function lockWaiting(tx: Queryable, limit: number): Promise<WaitingEvent[]> {
  return tx<WaitingEvent[]>`
    select id, action, body, date_created as "dateCreated" from operator_outbox
    order by id limit ${limit} for update skip locked`;
}

export async function deletePublished(tx: Queryable, ids: readonly number[]): Promise<void> {
  await tx`delete from operator_outbox where id = any(${ids}::bigint[])`;
}

const DAY_MS = 86_400_000;
/** A delivery that fails is at most this much older than its end, unless a rate limit has delayed it: retries end after four days. */
const DELIVERY_DAYS = 7;
/** Deliveries that are counted at once, in some seconds. */
const COUNTED_MAX = 100_000;

/**
 * Adds an event for each webhook and hour, of those that ended since the last count and before `until`, with the number of events that did
 * not arrive in it; of the last day, if the count is older. Of more than 100,000 failed deliveries some are not counted. The first count only notes the time. A process that counts at the same time
 * waits, and finds nothing to count.
 *
 * What a person or an operator has ended on purpose does not fail. Events for the operator are not counted: about a webhook that does not
 * receive them, a further one would follow each hour.
 */
export async function countNotArrived(tx: Queryable, until: Date, now: Date): Promise<void> {
  const dayBefore = new Date(until.getTime() - DAY_MS);
  const fromId = firstIdOfDay(dayOf(dayBefore) - DELIVERY_DAYS);
  await tx`
    with last as materialized (
      select greatest(counted_until, ${dayBefore}::timestamptz) as since from operator_hour
      where counted_until < ${until} for update
    ), counted as (
      insert into operator_hour (counted_until) values (${until})
      on conflict (is_only) do update set counted_until = excluded.counted_until
      where operator_hour.counted_until < excluded.counted_until
    )
    insert into operator_outbox (action, body, date_created)
    select 'delivery_exhausted', json_build_object('store_id', w.store_id, 'webhook_id', w.id, 'events_total', count(*),
      'date_from', date_bin('1 hour', d.date_ended, 'epoch')), ${now}
    from last
    cross join lateral (
      select * from delivery_done where state = 'failed' and resent_as is null and id >= ${fromId}
        and date_ended >= last.since and date_ended < ${until}
      limit ${COUNTED_MAX}
    ) as d
    join webhook w on w.shard = d.shard and w.id = d.webhook_id
      and (w.is_active or w.inactive_reason is not null and w.inactive_reason <> 'suspended')
    cross join lateral (
      select id, resource_type, action, body from event
      where shard = d.shard and store_id = d.store_id and id = d.event_id limit 1
    ) as e
    where e.resource_type <> ${OPERATOR_EVENT} and ${hasNotArrived(tx, tx`d.shard`)}
    group by w.store_id, w.id, date_bin('1 hour', d.date_ended, 'epoch')
    order by w.store_id, w.id`;
}
