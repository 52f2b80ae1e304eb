import type { Queryable } from '#database/pool.ts';

export type WorkerRow = { id: number; beat: number };
export type LeaseRow = { shard: number; owner: number | null; fence: number };

/** One heartbeat: this worker's counter rises by one. */
export const beat = async (sql: Queryable, worker: number, now: Date): Promise<void> => {
  await sql`
    insert into worker (id, beat, date_started) values (${worker}, 1, ${now})
    on conflict (id) do update set beat = worker.beat + 1`;
};

export const listWorkers = async (sql: Queryable) => sql<WorkerRow[]>`select id, beat from worker`;

export const listLeases = async (sql: Queryable) => sql<LeaseRow[]>`select shard, owner, fence from shard_lease`;

/**
 * Takes shards that are free or whose owner is dead. The condition is judged again under the row's lock, so of two that
 * reach for a shard one gets it; the fence rises with each change of hands.
 * Not `for update skip locked`: distributed PostgreSQL refuses it across shards.
 */
export const takeShards = async (sql: Queryable, worker: number, shards: number[], dead: number[]) =>
  sql<{ shard: number; fence: number }[]>`
    update shard_lease set owner = ${worker}, fence = fence + 1
    where shard = any (${shards}::smallint[]) and (owner is null or owner = any (${dead}::bigint[]))
    returning shard, fence`;

/** Hands shards back; one that changed hands meanwhile is left alone. */
export const releaseShards = async (sql: Queryable, worker: number, shards: number[]): Promise<void> => {
  await sql`update shard_lease set owner = null where shard = any (${shards}::smallint[]) and owner = ${worker}`;
};

/** Removes workers that are gone and own nothing. */
export const removeWorkers = async (sql: Queryable, workers: number[]): Promise<void> => {
  await sql`
    delete from worker w
    where id = any (${workers}::bigint[]) and not exists (select from shard_lease l where l.owner = w.id)`;
};
