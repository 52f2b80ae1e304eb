/** The statements of recoveries: asked for, found by the owner of their shard, started, moved on and ended. */
import { isAnyOpen, openTransactions } from '#db/activity.ts';
import { nextDeliveryId } from '#db/numbers.ts';
import type { Queryable } from '#db/pool.ts';
import { dayOf, firstIdOfDay } from '#core/ids.ts';
import { REFEED } from './refeed-input.ts';

/** `stopped`: the webhook was switched off meanwhile, or lost the address it sends to. */
export type End = 'finished' | 'cancelled' | 'stopped';
export type RecoveryState = 'waiting' | 'running' | End;

export type RecoveryKey = { shard: number; id: number };

export type NewRecovery = RecoveryKey & { storeId: number; webhookId: number; epoch: number; since: Date; now: Date };

/**
 * Writes a recovery. To be called in the transaction that holds the row of the webhook and has read from it that it is on: whoever
 * publishes from now on sees that too, and writes a delivery. Whoever began before may have seen it off, so the transactions that
 * are open now are kept, and the recovery waits for them (`areOlderOver`).
 */
export const insertRecovery = async (tx: Queryable, recovery: NewRecovery): Promise<void> => {
  const { shard, id, storeId, webhookId, epoch, since, now } = recovery;
  const older = await openTransactions(tx);
  await tx`
    insert into recovery (shard, id, store_id, webhook_id, epoch, since, state, older_transactions, date_created, date_modified)
    values (${shard}, ${id}, ${storeId}, ${webhookId}, ${epoch}, ${since}, 'waiting', ${older}::text[], ${now}, ${now})`;
};

/** Ends what was asked for before the last switch-off and is not ended yet: two open ones of a webhook cannot be stored. */
export const stopOlder = async (
  tx: Queryable,
  { shard, webhookId, epoch, now }: Pick<NewRecovery, 'shard' | 'webhookId' | 'epoch' | 'now'>,
): Promise<void> => {
  await tx`
    update recovery set state = 'stopped', date_modified = ${now}, date_ended = ${now}
    where shard = ${shard} and webhook_id = ${webhookId} and state in ('waiting', 'running') and epoch <> ${epoch}`;
};

/** The recovery of a webhook that is not ended. */
export const findOpen = async (
  sql: Queryable,
  { shard, webhookId }: { shard: number; webhookId: number },
): Promise<number | undefined> => {
  const [row] = await sql<{ id: number }[]>`
    select id from recovery
    where shard = ${shard} and webhook_id = ${webhookId} and state in ('waiting', 'running')`;
  return row?.id;
};

/** False where it has ended already. */
export const endRecovery = async (
  sql: Queryable,
  { shard, id }: RecoveryKey,
  state: End,
  now: Date,
): Promise<boolean> => {
  const { count } = await sql`
    update recovery set state = ${state}, date_modified = ${now}, date_ended = ${now}
    where shard = ${shard} and id = ${id} and state in ('waiting', 'running')`;
  return count > 0;
};

/** One that is not ended, as its owner works at it. */
export type OpenRecovery = RecoveryKey & {
  storeId: number;
  webhookId: number;
  epoch: number;
  since: Date;
  state: 'waiting' | 'running';
  olderTransactions: string[];
  afterEventId: number;
  untilEventId: number | null;
  eventsSeen: number;
  eventsRecovered: number;
  /** What the webhook is sent at the moment, and what a refeed of its resource is called. */
  events: string[];
  /** The webhook was switched off since, or has no address any more. */
  isOff: boolean;
};

/** Whether the webhook of a recovery is as it was when the recovery was asked for. */
const isOn = (sql: Queryable) => sql`(w.epoch = r.epoch and w.is_active and w.url is not null)`;

/** The names of what a recovery may bring: no webhook is for refeeds, but each may be sent those of its resource. */
const named = (sql: Queryable) =>
  sql`array_remove(array_append(w.events, w.event_resource || '/' || ${REFEED}), null) as events`;

/** The next `limit` recoveries of these shards that are not ended. */
export const openRecoveries = async (
  sql: Queryable,
  shards: readonly number[],
  after: { shard: number; webhookId: number },
  limit: number,
): Promise<OpenRecovery[]> => sql<OpenRecovery[]>`
  select r.shard, r.id, r.store_id as "storeId", r.webhook_id as "webhookId", r.epoch, r.since, r.state,
    r.older_transactions as "olderTransactions", r.after_event_id as "afterEventId", r.until_event_id as "untilEventId",
    r.events_seen as "eventsSeen", r.events_recovered as "eventsRecovered", ${named(sql)}, not ${isOn(sql)} as "isOff"
  from recovery r
  join webhook w on w.shard = r.shard and w.id = r.webhook_id
  where r.shard = any (${shards}::smallint[]) and r.state in ('waiting', 'running')
    and (r.shard, r.webhook_id) > (${after.shard}, ${after.webhookId})
  order by r.shard, r.webhook_id
  limit ${limit}`;

/**
 * Whether all transactions are over that were open when the recovery was asked for. Then every event that was published without
 * knowing that the webhook is on is there to be found; those whose transactions began later have deliveries by themselves, also where
 * their ids are lower than others that are there.
 */
export const areOlderOver = async (sql: Queryable, names: readonly string[]): Promise<boolean> =>
  !(await isAnyOpen(sql, names));

/**
 * Begins to run, up to the newest event that is there; answers how many there are to look through, undefined where it has begun or
 * ended already. A statement of its own after `areOlderOver`: its snapshot has to be younger than that answer. Counted are all
 * events of the store from the beginning of the day (UTC) of `since`, because the index tells that: 10⁵ take 20 ms.
 */
export const startRecovery = async (
  sql: Queryable,
  { shard, id, storeId, since }: OpenRecovery,
  now: Date,
): Promise<number | undefined> => {
  const after = firstIdOfDay(dayOf(since)) - 1;
  const [row] = await sql<{ total: number }[]>`
    with found as (
      select count(*) as total, max(id) as newest from event
      where shard = ${shard} and store_id = ${storeId} and id > ${after}
    )
    update recovery r set state = 'running', after_event_id = ${after}, until_event_id = coalesce(f.newest, ${after}),
      events_total = f.total, date_modified = ${now}
    from found f
    where r.shard = ${shard} and r.id = ${id} and r.state = 'waiting'
    returning f.total`;
  return row?.total;
};

/** Of a webhook's pending deliveries the first `limit`: how many there are, and how many of them are due. */
export const pendingOf = async (
  sql: Queryable,
  { shard, webhookId }: Pick<OpenRecovery, 'shard' | 'webhookId'>,
  limit: number,
  now: Date,
): Promise<{ total: number; due: number }> => {
  const [row] = await sql<{ total: number; due: number }[]>`
    select count(*) as total, count(*) filter (where due_at <= ${now}) as due
    from (
      select due_at from delivery where shard = ${shard} and webhook_id = ${webhookId} and due_at > '-infinity'
      order by due_at, id limit ${limit}
    ) as d`;
  return row ?? { total: 0, due: 0 };
};

/** A page: the cursor moves from `from` to `to`, over `seen` events, of which those of `eventIds` get a delivery. */
export type Page = { from: number; to: number; seen: number; eventIds: readonly number[] };

/**
 * Writes the deliveries of a page and moves the cursor, if it is where the page begins. False where it is not, because somebody
 * else has written the page, or the recovery has ended, or the webhook is off: then the transaction has to be rolled back.
 */
export const writePage = async (
  tx: Queryable,
  { shard, id }: RecoveryKey,
  { from, to, seen, eventIds }: Page,
  now: Date,
): Promise<{ isMoved: boolean; deliveryIds: number[] }> => {
  const day = dayOf(now);
  const [row] = await tx<{ isMoved: boolean; deliveryIds: number[] }[]>`
    with target as materialized (
      select r.shard, r.id, r.store_id, r.webhook_id, r.epoch, ${named(tx)}
      from recovery r
      join webhook w on w.shard = r.shard and w.id = r.webhook_id and ${isOn(tx)}
      where r.shard = ${shard} and r.id = ${id}
    ), made as (
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
      select t.shard, ${nextDeliveryId(tx, day, tx`t.shard`)}, t.store_id, t.webhook_id, t.epoch,
        e.id, ${now}
      from target t
      join event e on e.shard = ${shard} and e.id = any (${eventIds}::bigint[]) and e.store_id = t.store_id
        and octet_length(e.body) > 0 and (e.resource_type || '/' || e.action) = any (t.events)
      order by e.id
      returning id
    ), moved as (
      update recovery r set after_event_id = ${to}, events_seen = r.events_seen + ${seen}, date_modified = ${now},
        events_recovered = r.events_recovered + (select count(*) from made)
      from target t
      where r.shard = t.shard and r.id = t.id and r.state = 'running' and r.after_event_id = ${from}
      returning 1
    )
    select (select count(*) from moved) = 1 as "isMoved", array(select id from made order by id) as "deliveryIds"`;
  return row ?? { isMoved: false, deliveryIds: [] };
};

/** Recoveries that ended so long ago that the deliveries they made are dropped. */
export const purgeRecoveries = async (sql: Queryable, limit: number, endedBefore: Date): Promise<number> => {
  const { count } = await sql`
    delete from recovery where ctid = any(array(
      select ctid from recovery where date_ended < ${endedBefore} order by date_ended limit ${limit} for update skip locked
    ))`;
  return count;
};
