/** The statements of `doctor`. All are read-only and run in a transaction with a time-out. */
import { firstIdOfDay, SHARDS } from '#core/ids.ts';
import type { Applied } from '#db/migrate.ts';
import { EVENT_BLOCK } from '#db/partitions.ts';
import { oneOf, transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import { hasTable } from '#db/usable.ts';

const STATEMENT_MS = 5_000;
const LOCK_MS = 1_000;

/** Runs statements in a read-only transaction with time-outs. */
export function withTimeouts<T>(sql: Sql, read: (tx: Tx) => Promise<T>): Promise<T> {
  const limited = async (tx: Tx): Promise<T> => {
    await tx`
      select set_config('statement_timeout', ${String(STATEMENT_MS)}, true),
        set_config('lock_timeout', ${String(LOCK_MS)}, true)`;
    return read(tx);
  };
  return transaction(sql, limited, 'read only');
}

/**
 * `id`, the start of the server in microseconds, is equal for its databases; `databaseId` for connections to the same database.
 * `off`: those of the named settings that are off. `connectionsMax` excludes connections reserved for superusers.
 */
export type Server = {
  id: string;
  databaseId: string;
  version: string;
  isStandby: boolean;
  isReadOnly: boolean;
  off: string[];
  workMemKb: number;
  connectionsMax: number;
  connections: number;
};

export function readServer(sql: Queryable, settings: readonly string[]): Promise<Server> {
  return oneOf(sql<Server[]>`
    select started as id,
      started || ' ' || (select oid from pg_database where datname = current_database()) as "databaseId",
      current_setting('server_version') as version,
      pg_is_in_recovery() as "isStandby",
      current_setting('default_transaction_read_only') = 'on' as "isReadOnly",
      array(select name from pg_settings where name = any(${settings}::text[]) and setting = 'off') as off,
      pg_size_bytes(current_setting('work_mem')) / 1024 as "workMemKb",
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as "connectionsMax",
      (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections
    from (select pg_postmaster_start_time()::text as started) as server`);
}

/** Returns the process id of the server session that currently serves a connection. */
export async function readSession(sql: Queryable): Promise<number> {
  return (await oneOf(sql<{ pid: number }[]>`select pg_backend_pid() as pid`)).pid;
}

/** Returns the applied migrations; undefined in a database without Halcyon's tables. */
export async function listMigrations(sql: Queryable) {
  return (await hasTable(sql, 'schema_migration'))
    ? sql<Applied[]>`select version, name, hash from schema_migration order by version`
    : undefined;
}

/** `isLost`: the server has removed WAL that the slot needs. */
type Slot = { name: string; isActive: boolean; isLost: boolean; retainedBytes: number };

/** Returns the replication slots of this database and of standbys. */
export function listSlots(sql: Queryable) {
  return sql<Slot[]>`
    select slot_name::text as name, active as "isActive", wal_status = 'lost' as "isLost",
      coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end,
        restart_lsn), 0)::float8 as "retainedBytes"
    from pg_replication_slots
    where database is null or database = current_database()
    order by slot_name limit 20`;
}

type Session = { pid: number; name: string; seconds: number; blockers: number[] };

/** Returns sessions that have been idle in a transaction, or have waited for a lock, for at least this time; with the blocking sessions. */
export function listStuckSessions(sql: Queryable, isIdle: boolean, seconds: number) {
  return sql<Session[]>`
    select pid, coalesce(nullif(application_name, ''), usename, '?') as name, pg_blocking_pids(pid) as blockers,
      extract(epoch from clock_timestamp() - state_change)::float8 as seconds
    from pg_stat_activity
    where datname = current_database() and state_change < clock_timestamp() - make_interval(secs => ${seconds})
      and case when ${isIdle} then state like 'idle in transaction%' else wait_event_type = 'Lock' end
    order by state_change limit 20`;
}

type WebhookCounts = { active: number; inactive: number; failing: number };

export function countWebhooks(sql: Queryable): Promise<WebhookCounts> {
  return oneOf(sql<WebhookCounts[]>`
    select count(*) filter (where w.is_active) as active,
      count(*) filter (where not w.is_active) as inactive,
      count(*) filter (where w.is_active and s.consecutive_failures > 0) as failing
    from webhook w
    left join webhook_state s on s.shard = w.shard and s.webhook_id = w.id and s.epoch = w.epoch`);
}

/** Returns the events other than `known` to which webhooks subscribe, with the number of webhooks of each. */
export function countSubscribers(sql: Queryable, known: readonly string[]) {
  return sql<{ event: string; webhooks: number }[]>`
    select e.event, count(*) as webhooks
    from webhook w cross join lateral unnest(w.events) as e (event)
    where e.event <> all(${known}::text[])
    group by e.event order by e.event`;
}

/** Returns the date of the oldest idempotency key of an event; reads one index entry. */
export async function findOldestPublishKey(sql: Queryable): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date | null }[]>`select min(date_created) as at from publish_key`;
  return row?.at ?? undefined;
}

/** `used`: the last number of the sequence; null if none was used. `newest`: the highest number in a row. */
type Sequence = { name: string; used: number | null; newest: number | null };

/**
 * Returns the sequence of ids, and those of a day's events and deliveries, with the highest number in their tables. Reads the index of the
 * day's events and ended deliveries, which begins with their stores and webhooks: 0.1 s for a million.
 */
export function listSequences(sql: Queryable, day: number) {
  const first = firstIdOfDay(day);
  const end = firstIdOfDay(day + 1);
  return sql<Sequence[]>`
    with shard as (select s from generate_series(0, ${SHARDS - 1}::int) as g (s)),
    newest as (
      select 'id_n' as name, 1 as block, (select max(m) from shard, lateral (
        select max(id) / ${SHARDS}::int as m from webhook where shard = s) as w) as n
      union all
      select ${`event_n_d${day}`}, ${EVENT_BLOCK}::int, (select max(m) from shard, lateral (
        select (max(id) - ${first}::bigint) / ${SHARDS}::int as m from event where shard = s and id >= ${first} and id < ${end}) as w)
      union all
      select ${`delivery_n_d${day}`}, 1, greatest(
        (select max(m) from shard, lateral (
          select (max(id) - ${first}::bigint) / ${SHARDS}::int as m from delivery where shard = s and id >= ${first} and id < ${end}) as w),
        (select max(m) from shard, lateral (
          select (max(id) - ${first}::bigint) / ${SHARDS}::int as m from delivery_done
          where shard = s and id >= ${first} and id < ${end}) as w))
    )
    select n.name, q.last_value + n.block - 1 as used, n.n as newest
    from newest n join pg_sequences q on q.schemaname = current_schema() and q.sequencename = n.name
    order by n.name`;
}
