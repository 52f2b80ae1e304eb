import type { Queryable } from '#db/pool.ts';

export type WorkerRow = { id: number; beat: number };
export type LeaseRow = { shard: number; owner: number | null; fence: number };

/** CrashCounts are counted up to here: what matters is decided far below. */
const COUNTED_MAX = 1_000;

/** One heartbeat: this worker's counter rises by one. */
export const beat = async (sql: Queryable, worker: number, now: Date): Promise<void> => {
  await sql`
    insert into worker (id, beat, date_started) values (${worker}, 1, ${now})
    on conflict (id) do update set beat = worker.beat + 1`;
};

const listWorkers = async (sql: Queryable) => sql<WorkerRow[]>`select id, beat from worker`;

const listLeases = async (sql: Queryable) => sql<LeaseRow[]>`select shard, owner, fence from shard_lease`;

/** Who there is, and who has what. */
export const look = (sql: Queryable): Promise<[WorkerRow[], LeaseRow[]]> =>
  Promise.all([listWorkers(sql), listLeases(sql)]);

/** Until the transaction ends a lock is waited for no longer than that; then it fails with 55P03. */
export const waitForLocks = async (tx: Queryable, lockMs: number): Promise<void> => {
  await tx`select set_config('lock_timeout', ${String(lockMs)}, true)`;
};

/**
 * Takes shards that are free or whose owner is dead. The conditions are judged again under the rows' locks, so of two that
 * reach for a shard one gets it; the fence rises with each change of hands.
 * A dead owner's counter must still be what it was, and is held so: one that wakes up meanwhile beats before, and keeps
 * its shards, or after, and sees that they are gone. The live are never waited for by this, nor made to wait.
 * A take-over from a dead owner counts one death of the shard, and one of each delivery that was noted as in flight: the
 * count of a shard is above 0 after nothing else, since who hands it back makes it 0.
 * Shards in order, as all who lock them do, or two of them wait for each other. Not `for update skip locked`: distributed
 * PostgreSQL refuses it across shards.
 */
export const takeShards = async (sql: Queryable, worker: number, shards: number[], dead: readonly WorkerRow[]) => {
  const ids = dead.map(({ id }) => id);
  const beats = dead.map((seen) => seen.beat);
  return sql<{ shard: number; fence: number; crashCount: number }[]>`
    with gone as materialized (
      select w.id from worker w
      join unnest(${ids}::bigint[], ${beats}::bigint[]) as seen (id, beat) on seen.id = w.id and seen.beat = w.beat
      order by w.id
      for share of w
    ), free as materialized (
      select l.shard from shard_lease l
      where l.shard = any (${shards}::smallint[]) and (
        l.owner is null or l.owner in (select id from gone)
        or (l.owner = any (${ids}::bigint[]) and not exists (select from worker w where w.id = l.owner))
      )
      order by l.shard
      for no key update
    ), taken as (
      update shard_lease l set owner = ${worker}, fence = l.fence + 1,
        deaths = case when l.owner is null then 0 else least(l.deaths + 1, ${COUNTED_MAX}) end
      from free where l.shard = free.shard
      returning l.shard, l.fence, l.deaths
    ), counted as (
      update delivery_suspect s set deaths = least(s.deaths + 1, ${COUNTED_MAX})
      from taken t where s.shard = t.shard and s.fence = t.fence - 1 and t.crashCount > 0
    )
    select shard, fence, deaths as "crashCount" from taken`;
};

/**
 * Takes what is owned already under a new fence, the deaths as they were: whoever gave a shard up without handing it back may
 * have outcomes on their way that were sent under the old one.
 */
export const retakeShards = async (sql: Queryable, worker: number, shards: number[]) =>
  sql<{ shard: number; fence: number; crashCount: number }[]>`
    with owned as materialized (
      select shard from shard_lease
      where shard = any (${shards}::smallint[]) and owner = ${worker}
      order by shard
      for no key update
    )
    update shard_lease l set fence = l.fence + 1 from owned where l.shard = owned.shard
    returning l.shard, l.fence, l.deaths as "crashCount"`;

/** Hands shards back; one that changed hands meanwhile is left alone. */
export const releaseShards = async (sql: Queryable, worker: number, shards: number[]): Promise<void> => {
  await sql`
    with owned as materialized (
      select shard from shard_lease
      where shard = any (${shards}::smallint[]) and owner = ${worker}
      order by shard
      for no key update
    )
    update shard_lease l set owner = null, deaths = 0 from owned where l.shard = owned.shard`;
};

/** Forgets how many owners died holding the shards. */
export const resetCrashCounts = async (sql: Queryable, worker: number, shards: number[]): Promise<void> => {
  await sql`
    with owned as materialized (
      select shard from shard_lease
      where shard = any (${shards}::smallint[]) and owner = ${worker}
      order by shard
      for no key update
    )
    update shard_lease l set deaths = 0 from owned where l.shard = owned.shard`;
};

/** Removes workers that are gone and own nothing. */
export const removeWorkers = async (sql: Queryable, workers: number[]): Promise<void> => {
  await sql`
    delete from worker w
    where id = any (${workers}::bigint[]) and not exists (select from shard_lease l where l.owner = w.id)`;
};
