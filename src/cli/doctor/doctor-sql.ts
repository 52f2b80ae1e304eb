/** The statements of `doctor`. All are read-only and run in a transaction with a time-out. */
import type { Applied } from '#db/migrate.ts';
import { transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';

const STATEMENT_MS = 5_000;
const LOCK_MS = 1_000;

/** Runs statements in a read-only transaction with time-outs. */
export function withTimeouts<T>(sql: Sql, read: (tx: Tx) => Promise<T>): Promise<T> {
  return transaction(
    sql,
    async (tx) => {
      await tx`
        select set_config('statement_timeout', ${String(STATEMENT_MS)}, true),
          set_config('lock_timeout', ${String(LOCK_MS)}, true)`;
      return read(tx);
    },
    'read only',
  );
}

export type Server = {
  version: string;
  isStandby: boolean;
  readOnly: string;
  fsync: string;
  fullPageWrites: string;
  synchronousCommit: string;
  autovacuum: string;
  workMemKb: number;
  connectionsMax: number;
  connections: number;
};

/** Reads version and settings of the server. `connectionsMax` excludes connections reserved for superusers. */
export async function readServer(sql: Queryable): Promise<Server | undefined> {
  const [row] = await sql<Server[]>`
    select current_setting('server_version') as version,
      pg_is_in_recovery() as "isStandby",
      current_setting('default_transaction_read_only') as "readOnly",
      current_setting('fsync') as fsync,
      current_setting('full_page_writes') as "fullPageWrites",
      current_setting('synchronous_commit') as "synchronousCommit",
      current_setting('autovacuum') as autovacuum,
      pg_size_bytes(current_setting('work_mem')) / 1024 as "workMemKb",
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as "connectionsMax",
      (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections`;
  return row;
}

/** Returns an id that is equal for connections to the same database of the same server. */
export async function readDatabaseId(sql: Queryable): Promise<string> {
  const [row] = await sql<{ id: string }[]>`
    select pg_postmaster_start_time()::text || ' ' || oid::text as id from pg_database where datname = current_database()`;
  return row?.id ?? '';
}

/** Returns the process id of the server session that currently serves a connection. */
export async function readSession(sql: Queryable): Promise<number | undefined> {
  const [row] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  return row?.pid;
}

/** Returns the applied migrations; undefined in a database without Halcyon's tables. */
export async function listMigrations(sql: Queryable) {
  const [table] = await sql<{ isThere: boolean }[]>`select to_regclass('schema_migration') is not null as "isThere"`;
  if (table?.isThere !== true) return undefined;
  return sql<Applied[]>`
    select version, name, hash from schema_migration order by version`;
}

export type Session = { pid: number; name: string; seconds: number; blockers: number[] };

/** Returns sessions that have been idle in a transaction for at least this time. */
export function listIdleInTransaction(sql: Queryable, seconds: number) {
  return sql<Session[]>`
    select pid, coalesce(nullif(application_name, ''), usename, '?') as name, '{}'::int[] as blockers,
      extract(epoch from clock_timestamp() - state_change)::float8 as seconds
    from pg_stat_activity
    where datname = current_database() and state like 'idle in transaction%'
      and state_change < clock_timestamp() - make_interval(secs => ${seconds})
    order by state_change limit 20`;
}

/** Returns sessions that have waited for a lock for at least this time, with the blocking sessions. */
export function listWaitingForLocks(sql: Queryable, seconds: number) {
  return sql<Session[]>`
    select pid, coalesce(nullif(application_name, ''), usename, '?') as name, pg_blocking_pids(pid) as blockers,
      extract(epoch from clock_timestamp() - query_start)::float8 as seconds
    from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
      and query_start < clock_timestamp() - make_interval(secs => ${seconds})
    order by query_start limit 20`;
}

export type Backlog = { due: number; oldest: Date | null; held: number; ended: number };

/**
 * Counts due deliveries: `held` wait for their endpoint (a pause, the circuit breaker, a disconnected listener), `ended` belong to
 * a disabled or deleted webhook and are not completed yet, `due` can be sent.
 */
export async function readBacklog(sql: Queryable, now: Date): Promise<Backlog> {
  const [row] = await sql<Backlog[]>`
    select count(*) filter (where not ended and not held) as due,
      min(due_at) filter (where not ended and not held) as oldest,
      count(*) filter (where held and not ended) as held,
      count(*) filter (where ended) as ended
    from (
      select d.due_at, w.id is null or not w.is_active or w.epoch <> d.epoch as ended,
        coalesce(w.is_held or s.paused_until > ${now} or s.probe_at > ${now} or s.consecutive_failures > 0, false) as held
      from delivery d
      left join webhook w on w.shard = d.shard and w.id = d.webhook_id
      left join webhook_state s on s.shard = d.shard and s.webhook_id = d.webhook_id and s.epoch = d.epoch
      where d.due_at <= ${now}
    ) as one`;
  return row ?? { due: 0, oldest: null, held: 0, ended: 0 };
}

export type WebhookCounts = { active: number; inactive: number; failing: number };

export async function countWebhooks(sql: Queryable): Promise<WebhookCounts> {
  const [row] = await sql<WebhookCounts[]>`
    select count(*) filter (where w.is_active) as active,
      count(*) filter (where not w.is_active) as inactive,
      count(*) filter (where w.is_active and s.consecutive_failures > 0) as failing
    from webhook w
    left join webhook_state s on s.shard = w.shard and s.webhook_id = w.id and s.epoch = w.epoch`;
  return row ?? { active: 0, inactive: 0, failing: 0 };
}

/** Returns the events other than `known` to which webhooks subscribe, with the number of webhooks of each. */
export function countSubscribers(
  sql: Queryable,
  known: readonly string[],
): Promise<readonly { event: string; webhooks: number }[]> {
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
