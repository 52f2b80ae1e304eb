/**
 * Reads open transactions, the processes that are connected, and the volume of this database from PostgreSQL's activity views; and the
 * readiness of the database: it responds, accepts writes, has all migrations and free disk space.
 */
import type { Clock } from '#core/clock.ts';
import { inTime, type Check } from '#core/lifecycle.ts';
import { oneOf, type Queryable, transaction, useOf, type Sql } from './pool.ts';
import { versionsOf } from './migrate.ts';
import { isDiskFull } from './unavailable.ts';

/** Rejects unless the server responds. */
export async function ping(sql: Queryable): Promise<void> {
  await sql`select 1`;
}

/** Ages in seconds, 0 without an open transaction. `halcyonSeconds` covers sessions whose application name begins with `halcyon`. */
type TransactionAges = { oldestSeconds: number; halcyonSeconds: number };

/**
 * Returns the ages of the oldest open transactions. A long transaction prevents the removal of dead rows, which slows down all
 * index scans. Sessions of other users are visible only to members of `pg_read_all_stats`. Reads shared memory, no table.
 */
export async function readTransactionAges(sql: Queryable): Promise<TransactionAges> {
  return oneOf(sql<TransactionAges[]>`
    select coalesce(max(age), 0)::float8 as "oldestSeconds",
      coalesce(max(age) filter (where application_name like 'halcyon%'), 0)::float8 as "halcyonSeconds"
    from (
      select application_name, extract(epoch from clock_timestamp() - xact_start) as age
      from pg_stat_activity
      where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
    ) as session`);
}

/**
 * Returns the virtual transaction ids (`virtualxid` in pg_locks) of the open transactions of all Halcyon processes, without the
 * caller's. Every transaction has one from its start, before it takes a snapshot, and none is reused while the server runs.
 * Other programs are excluded: a pg_dump may take hours.
 *
 * Transaction ids are not sufficient: a statement may take its snapshot long before it gets one, and between its end and its
 * commit neither the snapshot nor the id shows when it began.
 */
export async function openTransactions(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select l.virtualxid as name
    from pg_locks l
    join pg_stat_activity a on a.pid = l.pid
    where l.locktype = 'virtualxid' and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
      and a.datname = current_database() and a.application_name like 'halcyon%'`;
  return rows.map(({ name }) => name);
}

/** Returns whether one of these transactions is still open. */
export async function isAnyOpen(sql: Queryable, names: readonly string[]): Promise<boolean> {
  if (names.length === 0) return false;
  const rows = await sql`
    select from pg_locks
    where locktype = 'virtualxid' and mode = 'ExclusiveLock' and virtualxid = any (${names}::text[]) limit 1`;
  return rows.length > 0;
}

/** A process that serves or delivers: `id` as in `shard_lease.owner`, `roles` of its command. */
type ProcessName = { id: number; version: string; roles: readonly string[] };

/** Returns the name of the sessions of a process in pg_stat_activity, at most 63 bytes; `listProcesses` reads it. */
export function sessionNameOf({ id, version, roles }: ProcessName): string {
  return `halcyon ${id} ${version} ${roles.join(',')}`;
}

/** Workers of 0.2.0 and before have no version and roles in their names. */
const SESSION_NAME = /^halcyon (\d+)(?: (\S+) (\S+))?$/;

/** `since`: the start of its oldest session. `address`: null over a Unix socket. */
export type ConnectedProcess = ProcessName & { since: Date; address: string | null };

/** Returns the processes with sessions in this database. Those whose `application_name` is set in the address of the database are missing. */
export async function listProcesses(sql: Queryable): Promise<ConnectedProcess[]> {
  const rows = await sql<{ name: string; since: Date; address: string | null }[]>`
    select application_name as name, min(backend_start) as since, min(host(client_addr)) as address
    from pg_stat_activity
    where datname = current_database() and application_name like 'halcyon %'
    group by 1 order by 2, 1`;
  return rows.flatMap(({ name, since, address }) => {
    const [, id, version = 'older', roles = 'deliver'] = SESSION_NAME.exec(name) ?? [];
    return id === undefined ? [] : [{ id: Number(id), version, roles: roles.split(','), since, address }];
  });
}

/** Counts since the statistics of the server began; sessions report them within ten seconds, busy ones within one. */
export type Volume = { published: number; ended: number; sizeBytes: number };

/** Returns how many events and ended deliveries were written, and the size of the database. Reads statistics, and no table. */
export async function readVolume(sql: Queryable): Promise<Volume> {
  const written = (table: string) => sql`
    (select coalesce(sum(pg_stat_get_tuples_inserted(inhrelid)), 0)::float8 from pg_inherits where inhparent = ${table}::regclass)`;
  return oneOf(sql<Volume[]>`
    select ${written('event')} as published, ${written('delivery_done')} as ended,
      pg_database_size(current_database())::float8 as "sizeBytes"`);
}

const ANSWER_MS = 1_000;
/** The result is cached, because unauthenticated callers must not cause a statement each. */
const CACHED_MS = 1_000;

/** 3 MB in a temporary file of the server. The statement is read-only: it changes no table and writes no WAL. */
const SPILLED_ROWS = 100_000;

type Missing = Awaited<ReturnType<Check>>;

/** Returns a function that rejects while the disk of the database is full. It sends a statement only after one was refused for that. */
function createSpaceCheck(sql: Sql): () => Promise<void> {
  let checked = 0;
  return async () => {
    const { refusedForSpace } = useOf(sql);
    if (refusedForSpace === checked) return;
    await transaction(
      sql,
      async (tx) => {
        await tx`select set_config('work_mem', '64kB', true)`;
        await tx`select count(*) from generate_series(1, ${SPILLED_ROWS}::int)`;
      },
      'read only',
    );
    checked = refusedForSpace;
  };
}

/**
 * Returns the check. `disk`: the disk of the database is full. `database`: no response within a second, because the server is
 * unavailable or all connections are in use. `writes`: the server only reads. `migrations`: a file of the folder is not applied; additional migrations of newer
 * code are accepted, because versions overlap during an upgrade.
 */
export async function createDatabaseCheck(deps: { sql: Sql; clock: Clock; migrations: string }): Promise<Check> {
  const { sql, clock } = deps;
  const checkSpace = createSpaceCheck(sql);
  const required = await versionsOf(deps.migrations);
  let running: Promise<Missing> | undefined;
  let cached: { missing: Missing; untilMs: number } | undefined;

  const check = async (): Promise<Missing> => {
    try {
      const rows = await sql<{ version: number; isReadOnly: boolean }[]>`
        select version, current_setting('transaction_read_only') = 'on' as "isReadOnly" from schema_migration`;
      const applied = new Set(rows.map(({ version }) => version));
      if (!required.every((version) => applied.has(version))) return 'migrations';
      // On a standby `transaction_read_only` is always on.
      if (rows[0]?.isReadOnly === true) return 'writes';
      await checkSpace();
      return undefined;
    } catch (error) {
      return isDiskFull(error) ? 'disk' : 'database';
    }
  };
  // Concurrent callers share one statement, each for at most the time-out.
  const shared = (): Promise<Missing> =>
    (running ??= check().then((missing) => {
      running = undefined;
      cached = { missing, untilMs: clock.monotonicMs() + CACHED_MS };
      return missing;
    }));
  return async () => {
    if (cached !== undefined && clock.monotonicMs() < cached.untilMs) return cached.missing;
    return inTime(ANSWER_MS, shared(), 'database');
  };
}
