import type { Queryable } from '#db/pool.ts';

export type WorkerRow = { id: number; beat: number };
/** `isDisconnected`: the session that sent the last heartbeat has ended. */
export type SeenWorker = WorkerRow & { isDisconnected: boolean };
export type LeaseRow = { shard: number; owner: number | null; fence: number };

/** Upper bound of stored crash counts; decisions depend on much smaller values. */
const COUNTED_MAX = 1_000;

/** Increments the heartbeat counter of this worker, and writes which session it has. */
export async function beat(sql: Queryable, worker: number, now: Date): Promise<void> {
  await sql`
    insert into worker (id, beat, date_started, backend_pid, backend_started)
    select ${worker}, 1, ${now}, pid, backend_start from pg_stat_get_activity(pg_backend_pid())
    on conflict (id) do update set beat = worker.beat + 1,
      backend_pid = excluded.backend_pid, backend_started = excluded.backend_started`;
}

/** A row of a worker or of a lease: the columns of the other are null. */
type LookRow = { [Column in keyof SeenWorker]: SeenWorker[Column] | null } & {
  shard: number | null;
  owner: number | null;
  fence: number | null;
};

/**
 * One statement, because each worker executes it once per heartbeat. The start of a session is null for a role that may not see it; then
 * only the number of its process counts.
 */
const listWorkersAndLeases = (sql: Queryable) => sql<LookRow[]>`
  select id, beat, backend_pid is not null and not exists (
    select from pg_stat_get_activity(backend_pid) as session
    where coalesce(session.backend_start, backend_started) = backend_started
  ) as "isDisconnected", null::smallint as shard, null::bigint as owner, null::bigint as fence
  from worker
  union all
  select null, null, null, shard, owner, fence from shard_lease`;

/** Returns all workers and all leases. */
export async function look(sql: Queryable): Promise<[SeenWorker[], LeaseRow[]]> {
  const workers: SeenWorker[] = [];
  const leases: LeaseRow[] = [];
  for (const { id, beat: counter, isDisconnected, shard, owner, fence } of await listWorkersAndLeases(sql)) {
    if (id !== null && counter !== null && isDisconnected !== null) workers.push({ id, beat: counter, isDisconnected });
    if (shard !== null && fence !== null) leases.push({ shard, owner, fence });
  }
  return [workers, leases];
}

/** Limits how long the rest of the transaction waits for a lock; beyond that it fails with 55P03. */
export async function waitForLocks(tx: Queryable, lockMs: number): Promise<void> {
  await tx`select set_config('lock_timeout', ${String(lockMs)}, true)`;
}

/**
 * Takes shards that are free or whose owner is dead; the fencing token rises. The conditions are checked again under
 * row locks: of two competing workers one gets the shard, and a dead owner's counter, unchanged and locked, shows that
 * it did not resume meanwhile; live workers are never locked.
 *
 * A take-over from a dead owner adds one crash to the shard and to each delivery that was marked as in flight. A
 * hand-back resets the count, so nothing else makes it positive.
 *
 * Rows are locked in shard order, as everywhere, to avoid deadlocks. `for update skip locked` is not used: distributed
 * PostgreSQL rejects it across shards.
 */
export async function takeShards(sql: Queryable, worker: number, shards: number[], dead: readonly WorkerRow[]) {
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
      from taken t where s.shard = t.shard and s.fence = t.fence - 1 and t.deaths > 0
    )
    select shard, fence, deaths as "crashCount" from taken`;
}

/** The CTE `owned (shard)`: those of the shards that the worker owns under any token, locked in shard order. */
const lockOwned = (sql: Queryable, worker: number, shards: readonly number[]) => sql`owned as materialized (
  select shard from shard_lease where shard = any (${shards}::smallint[]) and owner = ${worker} order by shard for no key update
)`;

/**
 * Takes shards of this worker again, under a new fencing token and with unchanged crash counts. After a lapse of the
 * lease, results sent under the old token may still be on their way.
 */
export async function retakeShards(sql: Queryable, worker: number, shards: number[]) {
  return sql<{ shard: number; fence: number; crashCount: number }[]>`
    with ${lockOwned(sql, worker, shards)}
    update shard_lease l set fence = l.fence + 1 from owned where l.shard = owned.shard
    returning l.shard, l.fence, l.deaths as "crashCount"`;
}

/** Hands shards back, except those that have another owner by now. */
export async function releaseShards(sql: Queryable, worker: number, shards: number[]): Promise<void> {
  await sql`
    with ${lockOwned(sql, worker, shards)}
    update shard_lease l set owner = null, deaths = 0 from owned where l.shard = owned.shard`;
}

/** Resets the crash counts of the shards. */
export async function resetCrashCounts(sql: Queryable, worker: number, shards: number[]): Promise<void> {
  await sql`
    with ${lockOwned(sql, worker, shards)}
    update shard_lease l set deaths = 0 from owned where l.shard = owned.shard`;
}

/** Deletes dead workers that own no shard. */
export async function removeWorkers(sql: Queryable, workers: number[]): Promise<void> {
  await sql`
    delete from worker w
    where id = any (${workers}::bigint[]) and not exists (select from shard_lease l where l.owner = w.id)`;
}
