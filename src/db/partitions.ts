/** The days of append-only tables: their partitions, and the numbers of the ids of their rows. */
import { SHARDS, dailyIdOf, dayOf, dayOfId, firstIdOfDay, NUMBERS_A_DAY } from '#core/ids.ts';
import { LOCKS, underLock } from './advisory-lock.ts';
import { readDatabaseTime } from './database-clock.ts';
import { countDays, deleteDayCounts } from './day-counts.ts';
import { transaction, type Queryable, type Sql } from './pool.ts';
import { isLockTimeout } from './unavailable.ts';
import type { Clock } from '#core/clock.ts';
import type { Running, Pace } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';

// The partition of a day is created ahead of time, and dropped as a whole after the retention period.

/** Tables that are partitioned by ranges of an id that contains its day: `id`, or the delivery id for `attempt`. */
export const PARENTS = ['event', 'delivery_done', 'attempt'] as const;
/** Short, because a waiting lock request blocks all later ones; the next run is early enough. */
const LOCK_TIMEOUT_MS = 2_000;

/** Returns the oldest day with a pending delivery: when it ends, it is written to the partitions of its day. */
async function oldestPendingDay(sql: Queryable): Promise<number> {
  const [row] = await sql<{ id: number | null }[]>`select min(least(id, event_id)) as id from delivery`;
  return row?.id == null ? Number.POSITIVE_INFINITY : dayOfId(row.id);
}

/** `detached`: not attached yet, or not any more. */
type State = 'attached' | 'detach pending' | 'detached';
export type Partition = { parent: (typeof PARENTS)[number]; name: string; day: number; state: State };

/** Returns all tables with the name of a partition, including those that a crash left between detach and drop. */
export async function partitionsOf(sql: Queryable): Promise<Partition[]> {
  const rows = await sql<{ name: string; state: State }[]>`
    select c.relname::text as name,
      case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'detach pending' else 'attached' end as state
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r'
      and c.relname ~ ${`^(${PARENTS.join('|')})_d[0-9]+$`}
    order by c.relname`;
  return rows.map(({ name, state }) => {
    const at = name.lastIndexOf('_d');
    return { parent: name.slice(0, at) as Partition['parent'], name, day: Number(name.slice(at + 2)), state };
  });
}

function missingOf(existing: readonly Partition[], today: number, daysAhead: number): Partition[] {
  const known = new Set(existing.map(({ name }) => name));
  const days = Array.from({ length: daysAhead + 2 }, (_, at) => today - 1 + at);
  return PARENTS.flatMap((parent) =>
    days.map((day) => ({ parent, name: `${parent}_d${day}`, day, state: 'detached' as const })),
  ).filter(({ name }) => !known.has(name));
}

/** Returns the partitions before the day `first`, pending detaches first: a parent can have only one at a time. */
const olderThan = (existing: readonly Partition[], first: number): Partition[] =>
  existing
    .filter(({ day }) => day < first)
    .toSorted((a, b) => Number(b.state === 'detach pending') - Number(a.state === 'detach pending'));

/** Creates and attaches a partition; `create table … partition of` would lock the parent against readers and writers. */
async function create(sql: Queryable, { parent, name, day }: Partition): Promise<void> {
  await sql`create table ${sql(name)} (like ${sql(parent)} including all)`;
  // Bounds cannot be parameters; these are internal numbers and names.
  const bounds = `from (${firstIdOfDay(day)}) to (${firstIdOfDay(day + 1)})`;
  await sql.unsafe(`alter table ${parent} attach partition ${name} for values ${bounds}`);
  await createNumbers(sql, { parent, name, day });
}

/**
 * Detaches and drops a partition; returns false if a lock was not available. Not in a transaction, because `detach concurrently`
 * commits in between.
 */
async function drop(sql: Queryable, { parent, name, day, state }: Partition): Promise<boolean> {
  try {
    // Before the rows: until they are dropped too, a list says fewer than it has.
    await deleteDayCounts(sql, parent, day);
    if (state === 'attached') await sql`alter table ${sql(parent)} detach partition ${sql(name)} concurrently`;
    if (state === 'detach pending') await sql`alter table ${sql(parent)} detach partition ${sql(name)} finalize`;
    await sql`drop table ${sql(name)}`;
    return true;
  } catch (error) {
    // A long transaction blocks this: the next run continues from this state.
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/**
 * Creates the missing partitions from the day before `today` (clocks differ, and a day's last batch commits on the next) to
 * `daysAhead` days after it, and returns their names. Rejects with SQLSTATE 55P03 if a lock on a parent was not available.
 */
export async function createMissing(sql: Queryable, today: number, daysAhead = 0): Promise<string[]> {
  const run = async (tx: Queryable): Promise<string[]> => {
    await tx`select pg_advisory_xact_lock(${LOCKS.partitions})`;
    await tx`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`;
    // Reads the partitions under the lock: another process may have created them.
    const missing = missingOf(await partitionsOf(tx), today, daysAhead);
    for (const partition of missing) await create(tx, partition);
    return missing.map(({ name }) => name);
  };
  return 'begin' in sql ? transaction(sql as Sql, run) : run(sql);
}

/** Returns the first day with partitions; undefined if there is none. */
async function firstDay(sql: Queryable): Promise<number | undefined> {
  const days = (await partitionsOf(sql)).flatMap(({ state, day }) => (state === 'attached' ? [day] : []));
  return days.length === 0 ? undefined : Math.min(...days);
}

/**
 * Returns the first day whose partitions are kept. The clock of this process may be wrong by weeks, so the minimum of it, the
 * database's clock and the newest event counts; days with pending deliveries are kept as well.
 */
async function firstKeptDay(sql: Queryable, today: number, retentionDays: number): Promise<number> {
  const databaseTime = await readDatabaseTime(sql);
  const newest = await newestNumberedDay(sql);
  if (newest === undefined) return Number.NEGATIVE_INFINITY;
  return Math.min(Math.min(today, dayOf(databaseTime), newest) - retentionDays, await oldestPendingDay(sql));
}

function dropOld(direct: Sql, today: number, retentionDays: number): Promise<string[]> {
  return underLock(direct, LOCKS.partitions, async (on) => {
    await on`select set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, false)`;
    try {
      const dropped: string[] = [];
      const blocked = new Set<string>();
      for (const partition of olderThan(await partitionsOf(on), await firstKeptDay(on, today, retentionDays))) {
        if (blocked.has(partition.parent)) continue;
        if (await drop(on, partition)) dropped.push(partition.name);
        // PostgreSQL refuses a second detach of a parent while one is pending (SQLSTATE 55000).
        else blocked.add(partition.parent);
      }
      return dropped;
    } finally {
      // Fails only if the connection is lost, and the setting with it.
      await on`reset lock_timeout`.catch(() => {});
    }
  });
}

/**
 * Creates the missing partitions up to `daysAhead` days after `now`, and drops those whose day ended more than `retentionDays`
 * before now, before the database's clock and before the newest event. May run in many processes at once; with nothing to do it
 * is one look-up. Rejects with SQLSTATE 55P03 if a lock on a parent was not available.
 */
export async function maintainPartitions(
  direct: Sql,
  options: { now: Date; retentionDays: number; daysAhead: number },
): Promise<{ created: string[]; dropped: string[] }> {
  const today = dayOf(options.now);
  const existing = await partitionsOf(direct);
  const isComplete = missingOf(existing, today, options.daysAhead).length === 0;
  const created = isComplete ? [] : await createMissing(direct, today, options.daysAhead);
  const hasOld = olderThan(existing, today - options.retentionDays).length > 0;
  return { created, dropped: hasOld ? await dropOld(direct, today, options.retentionDays) : [] };
}

/** Short, so that a computer that was suspended for days soon has the tables of the day; a check is one look-up. */
const PARTITION_CHECK_MS = 60_000;
const PARTITION_DAYS_AHEAD = 3;
const COUNT_LIMIT_MS = 20_000;
const ALL_SHARDS: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard);

/** Creates the partitions of the coming days and drops the old ones, at once and then once a minute; counts the ended days then. */
export async function keepPartitions(deps: {
  direct: Sql;
  clock: Clock;
  pace: Pace;
  log: Log;
  retentionDays: number;
}): Promise<Running> {
  const { direct, clock, pace, log, retentionDays } = deps;
  const stopping = new AbortController();
  const { signal } = stopping;
  const run = () => maintainPartitions(direct, { now: clock.now(), retentionDays, daysAhead: PARTITION_DAYS_AHEAD });
  const count = async (): Promise<void> => {
    const first = await firstDay(direct);
    const endMs = clock.monotonicMs() + COUNT_LIMIT_MS;
    const mayContinue = () => !signal.aborted && clock.monotonicMs() < endMs;
    if (first !== undefined) await countDays(direct, { shards: ALL_SHARDS, first, now: clock.now(), mayContinue });
  };
  const failed = (error: unknown): void => log.error({ err: error }, 'partition maintenance failed; retrying');
  try {
    await run();
  } catch (error) {
    // Partitions exist for days ahead, except at the first start, when no other session holds locks.
    if (!isLockTimeout(error)) throw error;
    failed(error);
  }
  void pace.repeat(PARTITION_CHECK_MS, () => run().then(count).catch(failed), signal);
  return { stop: async () => stopping.abort() };
}

// Each day has a sequence for events and one for deliveries: each begins at 0, so ids of a day rise, and ends with an error after 2³⁰
// numbers, so no id is allocated twice. A sequence is dropped with its day's partition. One sequence per shard and day would allow 256
// times as many deliveries, but 256 sequences take 95 ms to create at the first start, and their names cost 0.25–0.5 µs of a row's 30.

/** Numbers that an event writer allocates at a time and may use once in each shard. */
export const EVENT_BLOCK = 256;
/**
 * How long a process uses a block. Ids of an older one would be far lower than others of the same time, and lists ordered by id would
 * show them too late. With this age, 242 processes that write an event now and then use up the numbers of a day (17,280 blocks of
 * 256 each).
 */
export const BLOCK_AGE_MS = 5_000;

export type Numbered = 'event' | 'delivery';
/** The partitioned tables whose days have a sequence. */
const NUMBERED: Readonly<Record<string, Numbered>> = { event: 'event', delivery_done: 'delivery' };

const sequenceOf = (numbered: Numbered, day: number): string => `${numbered}_n_d${day}`;

/** Creates the sequence of a day's partition, if its table has one. */
export async function createNumbers(
  sql: Queryable,
  { parent, name, day }: { parent: string; name: string; day: number },
): Promise<void> {
  const numbered = NUMBERED[parent];
  if (numbered === undefined) return;
  const step = numbered === 'event' ? EVENT_BLOCK : 1;
  // Bounds cannot be parameters.
  await sql.unsafe(`create sequence if not exists ${sequenceOf(numbered, day)} as bigint increment by ${step}
    minvalue 0 maxvalue ${NUMBERS_A_DAY - 1} no cycle owned by ${name}.id`);
}

/** Returns the SQL of the next delivery id of a day in the shard that `shard` is the SQL of. */
export function nextDeliveryId(sql: Queryable, day: number, shard: ReturnType<Queryable>) {
  return sql`(${firstIdOfDay(day)}::bigint + nextval(${sequenceOf('delivery', day)}::regclass) * ${SHARDS}::int + ${shard})`;
}

/**
 * Returns the first number of a block that only the caller has (`EVENT_BLOCK` numbers for each shard), and undefined if the
 * day has no sequence yet: an error would end the caller's transaction.
 */
export async function nextEventBlock(sql: Queryable, day: number): Promise<number | undefined> {
  const [row] = await sql<{ n: number | null }[]>`
    select nextval(to_regclass(${sequenceOf('event', day)}))::float8 as n`;
  return row?.n ?? undefined;
}

/** Returns the newest day that has an event, and undefined if none has. */
async function newestNumberedDay(sql: Queryable): Promise<number | undefined> {
  const [row] = await sql<{ day: number | null }[]>`
    select max(substring(sequencename from '[0-9]+$')::int) as day from pg_sequences
    where schemaname = current_schema() and sequencename ~ '^event_n_d[0-9]+$' and last_value is not null`;
  return row?.day ?? undefined;
}

/** Returns the share of a day's numbers that is used (0–1), of those that have a sequence for that day. */
export async function readUsedNumbers(sql: Queryable, day: number): Promise<ReadonlyMap<Numbered, number>> {
  const kinds = Object.values(NUMBERED);
  const rows = await sql<{ kind: Numbered; used: number }[]>`
    select kind, coalesce(last_value, 0)::float8 / ${NUMBERS_A_DAY} as used
    from unnest(${kinds}::text[], ${kinds.map((kind) => sequenceOf(kind, day))}::text[]) as wanted (kind, name)
    join pg_sequences on schemaname = current_schema() and sequencename = wanted.name`;
  return new Map(rows.map(({ kind, used }) => [kind, used]));
}

/** Returns an event id for each of the shards, which may contain repetitions. `inTransaction`: the caller occupies a connection of the pool. */
export type IdAllocator = (
  sql: Queryable,
  request: { day: number; shards: readonly number[] },
  inTransaction?: 'inTransaction',
) => Promise<number[]>;

/** `used`: how many numbers of the block each shard has used. */
type Block = { day: number; first: number; fetchedMs: number; used: Map<number, number> };

/**
 * Creates an allocator of event ids. It takes their numbers from blocks, in which each shard counts separately;
 * concurrent callers wait for the same fetch. Callers in a transaction fetch a block themselves, because the other fetch may
 * wait for the connection that they occupy. If two blocks arrive at once, the rest of the first is unused.
 *
 * Without a clock blocks never expire, for programs that run once and end.
 */
export function createIdAllocator(monotonicMs: () => number = () => 0): IdAllocator {
  let block: Block | undefined;
  let fetching: Promise<void> | undefined;
  const fetchBlock = async (sql: Queryable, day: number) => {
    let first = await nextEventBlock(sql, day);
    // After a clock change or a suspended computer the day may have no partitions yet.
    if (first === undefined) {
      await createMissing(sql, day);
      first = await nextEventBlock(sql, day);
    }
    if (first === undefined) throw new Error(`Day ${day} has tables, and no numbers`);
    block = { day, first, fetchedMs: monotonicMs(), used: new Map() };
  };
  const take = (day: number, shard: number): number | undefined => {
    const used = block?.used.get(shard) ?? 0;
    if (block?.day !== day || used === EVENT_BLOCK) return undefined;
    block.used.set(shard, used + 1);
    return block.first + used;
  };
  return async (sql, { day, shards }, inTransaction) => {
    const ids: number[] = [];
    if (shards.length > 0 && block !== undefined && monotonicMs() - block.fetchedMs > BLOCK_AGE_MS) block = undefined;
    for (const shard of shards) {
      let number = take(day, shard);
      // Concurrent callers may have used all numbers of the shard, or fetched a block of another day.
      for (; number === undefined; number = take(day, shard)) {
        if (inTransaction) await fetchBlock(sql, day);
        else await (fetching ??= fetchBlock(sql, day).finally(() => (fetching = undefined)));
      }
      ids.push(dailyIdOf(day, number, shard));
    }
    return ids;
  };
}
