/** SQL that erases events in batches: the events of a resource and the lifecycle steps that were derived from it. */
import type { Queryable } from '#db/pool.ts';

/**
 * What remains to be erased: a chain of events from `eventId` back in time, and a chain of steps, whose resources are deleted
 * as well. Null if none remain.
 */
export type Remaining = { shard: number; storeId: number; eventId: number | null; stepId: number | null };

/**
 * Returns the events of one resource, newest first, by following `previous_id`; the chain ends at a dropped partition. `limit
 * 1` makes each step one index lookup in one partition: with a plain join the planner may read all partitions.
 */
export async function findEventChain(sql: Queryable, shard: number, headId: number, limit: number): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    with recursive chain as (
      select id, previous_id from event where shard = ${shard} and id = ${headId}
      union all
      select before.id, before.previous_id
      from chain
      cross join lateral (
        select id, previous_id from event where shard = ${shard} and id = chain.previous_id limit 1
      ) as before
    )
    select id from chain limit ${limit}`;
  return rows.map(({ id }) => id);
}

/** Returns the steps of one subscription, newest first, including steps that were erased individually. */
export async function findSteps(
  sql: Queryable,
  { shard, storeId }: Remaining,
  newestId: number,
  limit: number,
): Promise<number[]> {
  const before = (table: 'resource' | 'erased_resource') => sql`(
    select b.step_id from ${sql(table)} b
    where b.shard = ${shard} and b.store_id = ${storeId} and b.type = 'subscription_event' and b.id = step.id::text
  )`;
  const rows = await sql<{ id: number }[]>`
    with recursive step as (
      select ${newestId}::bigint as id
      union all
      select before.id from step
      cross join lateral (select coalesce(${before('resource')}, ${before('erased_resource')}) as id) as before
      where before.id is not null
    )
    select id from step limit ${limit}`;
  return rows.map(({ id }) => id);
}

/**
 * Deletes the resources of steps. Their ids are never reused, so no version is kept. Returns the newest event of each step that
 * has more than one event, because it was sent again.
 */
export async function deleteSteps(
  sql: Queryable,
  { shard, storeId }: Remaining,
  ids: readonly number[],
): Promise<number[]> {
  const rows = await sql<{ headId: number }[]>`
    with gone as (
      delete from resource where ctid = any(array(
        select ctid from resource
        where shard = ${shard} and store_id = ${storeId} and type = 'subscription_event' and id = any(${ids.map(String)}::text[])
        order by id for update
      ))
      returning event_id, head_event_id
    )
    select head_event_id as "headId" from gone where head_event_id <> event_id`;
  return rows.map(({ headId }) => headId);
}

/** Locks the events until the transaction ends, in id order to prevent deadlocks. */
export async function lockEvents(sql: Queryable, shard: number, ids: readonly number[]): Promise<void> {
  await sql`select from event where shard = ${shard} and id = any(${ids}::bigint[]) order by id for update`;
}

/** Sets the bodies to the empty string, which no JSON text equals and which marks an erased event. */
export async function emptyEvents(sql: Queryable, shard: number, ids: readonly number[]): Promise<void> {
  await sql`update event set body = '' where shard = ${shard} and id = any(${ids}::bigint[]) and body <> ''`;
}

/** What remains of one resource, stored under the id of its newest event. */
export type StoredRemaining = Remaining & { id: number };

export async function saveRemaining(
  sql: Queryable,
  { id, shard, storeId, eventId, stepId }: StoredRemaining,
  now: Date,
) {
  await sql`
    insert into erased_chain (shard, id, store_id, event_id, step_id, date_erased)
    values (${shard}, ${id}, ${storeId}, ${eventId}, ${stepId}, ${now})
    on conflict (shard, id) do update set event_id = excluded.event_id, step_id = excluded.step_id`;
}

export async function deleteRemaining(sql: Queryable, { shard, id }: StoredRemaining): Promise<void> {
  await sql`delete from erased_chain where shard = ${shard} and id = ${id}`;
}

const columns = (sql: Queryable) => sql`shard, id, store_id as "storeId", event_id as "eventId", step_id as "stepId"`;

/** Returns and locks the stored remainder; undefined if it is fully erased. */
export async function lockRemaining(
  sql: Queryable,
  { shard, id }: StoredRemaining,
): Promise<StoredRemaining | undefined> {
  const [remaining] = await sql<StoredRemaining[]>`
    select ${columns(sql)} from erased_chain where shard = ${shard} and id = ${id} for update`;
  return remaining;
}

/** Returns and locks any stored remainder that is not locked. */
export async function lockAnyRemaining(sql: Queryable): Promise<StoredRemaining | undefined> {
  const [remaining] = await sql<StoredRemaining[]>`
    select ${columns(sql)} from erased_chain order by shard, id limit 1 for update skip locked`;
  return remaining;
}
