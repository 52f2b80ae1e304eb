/** The statements that erase events, a batch at a time: those about a resource, and the steps that were derived from it. */
import type { Queryable } from '#db/pool.ts';

/** Events of a store from one of them on, back in time; and steps, whose resources go too. Null where none are left. */
export type Rest = { shard: number; storeId: number; eventId: number | null; stepId: number | null };

/**
 * The events about one resource, newest first, from each to the one before it; where a day was dropped, the chain ends.
 * `limit 1` makes each step one look into the index of the one partition: as a plain join the planner may read them all.
 */
export const chainOf = async (sql: Queryable, shard: number, headId: number, limit: number): Promise<number[]> => {
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
};

/** The steps of one subscription, newest first, across those that were erased by themselves. */
export const stepsOf = async (
  sql: Queryable,
  { shard, storeId }: Rest,
  newestId: number,
  limit: number,
): Promise<number[]> => {
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
};

/**
 * A step's id is never used again, so no version is kept of it. Answers the newest event of each that has more than the one
 * that it is: it was sent again.
 */
export const deleteSteps = async (
  sql: Queryable,
  { shard, storeId }: Rest,
  ids: readonly number[],
): Promise<number[]> => {
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
};

/** Until the transaction ends; everybody takes them in this order, so that nobody waits in a circle. */
export const lockEvents = async (sql: Queryable, shard: number, ids: readonly number[]): Promise<void> => {
  await sql`select from event where shard = ${shard} and id = any(${ids}::bigint[]) order by id for update`;
};

/** No JSON text is empty: an event whose body is, was erased. */
export const emptyEvents = async (sql: Queryable, shard: number, ids: readonly number[]): Promise<void> => {
  await sql`update event set body = '' where shard = ${shard} and id = any(${ids}::bigint[]) and body <> ''`;
};

/** What is left of one resource, under the id of its newest event. */
export type Left = Rest & { id: number };

export const keepRest = async (sql: Queryable, { id, shard, storeId, eventId, stepId }: Left, now: Date) => {
  await sql`
    insert into erased_chain (shard, id, store_id, event_id, step_id, date_erased)
    values (${shard}, ${id}, ${storeId}, ${eventId}, ${stepId}, ${now})
    on conflict (shard, id) do update set event_id = excluded.event_id, step_id = excluded.step_id`;
};

export const endRest = async (sql: Queryable, { shard, id }: Left): Promise<void> => {
  await sql`delete from erased_chain where shard = ${shard} and id = ${id}`;
};

const columns = (sql: Queryable) => sql`shard, id, store_id as "storeId", event_id as "eventId", step_id as "stepId"`;

/** What is left of the one; undefined where all of it is erased. Kept from others until the transaction ends. */
export const takeRest = async (sql: Queryable, { shard, id }: Left): Promise<Left | undefined> => {
  const [left] = await sql<Left[]>`
    select ${columns(sql)} from erased_chain where shard = ${shard} and id = ${id} for update`;
  return left;
};

/** What is left of any that nobody is at. */
export const nextRest = async (sql: Queryable): Promise<Left | undefined> => {
  const [left] = await sql<Left[]>`
    select ${columns(sql)} from erased_chain order by shard, id limit 1 for update skip locked`;
  return left;
};
