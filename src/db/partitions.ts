/**
 * The day partitions of what is appended and never changed: made ahead of time, dropped whole when their day is over.
 */
import type postgres from 'postgres';
import { dayOf, dayOfId, firstIdOfDay } from '#core/ids.ts';
import { createNumbers, isWithoutNumbers, newestNumberedDay } from './numbers.ts';
import { transaction, type Queryable, type Sql } from './pool.ts';

/** Each is partitioned by range of an id that carries its day: `id`, or the delivery's for `attempt`. */
export const PARENTS = ['event', 'delivery_done', 'attempt'] as const;
/** One maintainer at a time; the lock of `migrate.ts` differs. */
const LOCK = 7_209_002;
/** Whoever waits for a lock makes all others wait behind it: give up soon, the next run is early enough. */
const LOCK_TIMEOUT_MS = 2_000;
const LOCK_NOT_AVAILABLE = '55P03';
const CHECK_VIOLATION = '23514';

const codeOf = (error: unknown): unknown => (error as Partial<postgres.PostgresError> | null)?.code;

/** Somebody held a lock for longer than a run waits for one: a dump, an `analyze`. The next run is early enough. */
export const isInTheWay = (error: unknown): boolean => codeOf(error) === LOCK_NOT_AVAILABLE;

/** A row or an id of a day that has no partition: the clock is days off, or no run has succeeded for days. */
export const isWithoutPartition = (error: unknown): boolean =>
  isWithoutNumbers(error) ||
  (codeOf(error) === CHECK_VIOLATION && (error as Error).message.startsWith('no partition of relation'));

/** Pending deliveries stay until they end, and end into the partitions of their day: those days stay as well. */
const oldestPendingDay = async (sql: Queryable): Promise<number> => {
  const [row] = await sql<{ id: number | null }[]>`select min(least(id, event_id)) as id from delivery`;
  return row?.id == null ? Number.POSITIVE_INFINITY : dayOfId(row.id);
};

/** `apart`: not (or no more) a part of its parent. */
type State = 'attached' | 'detach pending' | 'apart';
export type Partition = { parent: string; name: string; day: number; state: State };

/** All tables with a partition's name; a crash may leave one between two steps of its end. */
export const partitionsOf = async (sql: Queryable): Promise<Partition[]> => {
  const rows = await sql<{ name: string; state: State }[]>`
    select c.relname::text as name,
      case when i.inhrelid is null then 'apart' when i.inhdetachpending then 'detach pending' else 'attached' end as state
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
      and c.relname ~ ${`^(${PARENTS.join('|')})_d[0-9]+$`}
    order by c.relname`;
  return rows.map(({ name, state }) => {
    const at = name.lastIndexOf('_d');
    return { parent: name.slice(0, at), name, day: Number(name.slice(at + 2)), state };
  });
};

const missingOf = (there: readonly Partition[], today: number, daysAhead: number): Partition[] => {
  const known = new Set(there.map(({ name }) => name));
  const days = Array.from({ length: daysAhead + 2 }, (_, at) => today - 1 + at);
  return PARENTS.flatMap((parent) =>
    days.map((day) => ({ parent, name: `${parent}_d${day}`, day, state: 'apart' as const })),
  ).filter(({ name }) => !known.has(name));
};

/** Of each parent one detach can be pending at a time: it is finished before the next begins. */
const olderThan = (there: readonly Partition[], first: number): Partition[] =>
  there
    .filter(({ day }) => day < first)
    .toSorted((a, b) => Number(b.state === 'detach pending') - Number(a.state === 'detach pending'));

/** Create and attach, because `create table … partition of` would lock the parent against readers and writers. */
const create = async (sql: Queryable, { parent, name, day }: Partition): Promise<void> => {
  await sql`create table ${sql(name)} (like ${sql(parent)} including all)`;
  // Bounds cannot be parameters; these are numbers and names of our own.
  const bounds = `from (${firstIdOfDay(day)}) to (${firstIdOfDay(day + 1)})`;
  await sql.unsafe(`alter table ${parent} attach partition ${name} for values ${bounds}`);
  await createNumbers(sql, { parent, name, day });
};

/** Not in a transaction: `detach concurrently` commits in the middle, so that nobody has to wait for it. */
const drop = async (sql: Queryable, { parent, name, state }: Partition): Promise<boolean> => {
  try {
    if (state === 'attached') await sql`alter table ${sql(parent)} detach partition ${sql(name)} concurrently`;
    if (state === 'detach pending') await sql`alter table ${sql(parent)} detach partition ${sql(name)} finalize`;
    await sql`drop table ${sql(name)}`;
    return true;
  } catch (error) {
    // A long transaction is in the way: the next run goes on from the state that this one leaves.
    if (isInTheWay(error)) return false;
    throw error;
  }
};

/**
 * Makes the partitions from the day before `today` (clocks differ, and a day's last batch commits on the next) to `daysAhead` days
 * after it that are missing, and returns their names. Rejects with SQLSTATE 55P03 where a lock on a parent was not available.
 */
export const createMissing = async (sql: Queryable, today: number, daysAhead = 0): Promise<string[]> => {
  const make = async (tx: Queryable): Promise<string[]> => {
    await tx`select pg_advisory_xact_lock(${LOCK})`;
    await tx`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`;
    // Looked up under the lock: another process may have made them.
    const missing = missingOf(await partitionsOf(tx), today, daysAhead);
    for (const partition of missing) await create(tx, partition);
    return missing.map(({ name }) => name);
  };
  return 'begin' in sql ? transaction(sql as Sql, make) : make(sql);
};

/**
 * The day before which partitions may be dropped, `retentionDays` after it. The clock of this process alone may be wrong by weeks,
 * so neither the database's clock nor the newest event may be behind it; days of pending deliveries stay as well.
 */
const firstKeptDay = async (sql: Queryable, today: number, retentionDays: number): Promise<number> => {
  const [row] = await sql<{ at: Date }[]>`select clock_timestamp() as at`;
  const newest = await newestNumberedDay(sql);
  if (row === undefined || newest === undefined) return Number.NEGATIVE_INFINITY;
  return Math.min(Math.min(today, dayOf(row.at), newest) - retentionDays, await oldestPendingDay(sql));
};

const dropOld = async (direct: Sql, today: number, retentionDays: number): Promise<string[]> => {
  const connection = await direct.reserve();
  try {
    await connection`select pg_advisory_lock(${LOCK})`;
    await connection`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, false)`;
    const dropped: string[] = [];
    const old = olderThan(await partitionsOf(connection), await firstKeptDay(connection, today, retentionDays));
    const blocked = new Set<string>();
    for (const partition of old) {
      if (blocked.has(partition.parent)) continue;
      if (await drop(connection, partition)) dropped.push(partition.name);
      // PostgreSQL refuses a second detach of a parent while one is pending (SQLSTATE 55000).
      else blocked.add(partition.parent);
    }
    return dropped;
  } finally {
    // These fail only when the connection is gone, and lock and setting are gone with it.
    await connection`reset lock_timeout`.catch(() => {});
    await connection`select pg_advisory_unlock(${LOCK})`.catch(() => {});
    connection.release();
  }
};

/**
 * Makes the missing partitions up to `daysAhead` days after `now`, and drops those whose day ended more than `retentionDays` before
 * now, before the database's clock and before the newest event. May run in many processes at once, and is one look-up when there is
 * nothing to do. Rejects with SQLSTATE 55P03 when a lock on a parent was not to be had.
 */
export const maintainPartitions = async (
  direct: Sql,
  options: { now: Date; retentionDays: number; daysAhead: number },
): Promise<{ created: string[]; dropped: string[] }> => {
  const today = dayOf(options.now);
  const seen = await partitionsOf(direct);
  const isComplete = missingOf(seen, today, options.daysAhead).length === 0;
  const created = isComplete ? [] : await createMissing(direct, today, options.daysAhead);
  const hasOld = olderThan(seen, today - options.retentionDays).length > 0;
  return { created, dropped: hasOld ? await dropOld(direct, today, options.retentionDays) : [] };
};
