/** Logical replication of the rows of some shards to another database, and the triggers that refuse their changes in the source. */
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseError, oneOf, transaction, type Queryable, type Sql, type Tx } from './pool.ts';
import { codeOf } from './unavailable.ts';

type Range = { first: number; last: number };
/** `name`: that of the publication, the slot and the subscription. */
export type Replication = { name: string; source: Sql; target: Sql };

/** As for migrations: less than the second after which PostgreSQL ends one of two deadlocked transactions. */
const LOCK_TIMEOUT_MS = { first: 100, max: 500 } as const;
const PATIENCE_MS = 600_000;
const POLL_MS = 20;
/** SQLSTATEs of a lock that was not available, a deadlock, and a statement that took too long. */
const LOCKED: ReadonlySet<unknown> = new Set(['55P03', '40P01', '57014']);

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;
const within = (column: string, ranges: readonly Range[]): string =>
  ranges.map(({ first, last }) => `${column} between ${first} and ${last}`).join(' or ');

/** Other transactions kept the locks for too long. */
export class LockedError extends DatabaseError {}

/**
 * Runs a transaction until it gets its locks: other requests wait behind it for half a second at most, and go first then. `what`
 * describes it. Throws a `LockedError` if a try fails after `patienceMs`.
 */
export async function withShortLocks<T>(
  sql: Sql,
  what: string,
  body: (tx: Tx) => Promise<T>,
  patienceMs = PATIENCE_MS,
): Promise<T> {
  const since = performance.now();
  for (let lockMs: number = LOCK_TIMEOUT_MS.first; ; lockMs = Math.min(2 * lockMs, LOCK_TIMEOUT_MS.max)) {
    try {
      return await transaction(sql, async (tx) => {
        // The limit of all statements together, each of which may wait for several locks.
        await tx`
          select set_config('lock_timeout', ${String(lockMs)}, true), set_config('statement_timeout', ${String(lockMs)}, true)`;
        return body(tx);
      });
    } catch (error) {
      if (!LOCKED.has(codeOf(error))) throw error;
      if (performance.now() - since > patienceMs)
        throw new LockedError(
          `${what} was not possible for ${Math.round(patienceMs / 1_000)} s, because other transactions kept rows or tables locked: find them in pg_stat_activity (the smallest xact_start), end them, then run this again`,
          { cause: error },
        );
    }
    await delay(lockMs);
  }
}

/**
 * Returns the tables with a column `shard`, without partitions. `isKey`: it is in the primary key, or all columns are replicated, which
 * changes of rows need.
 */
export async function listShardedTables(sql: Queryable): Promise<{ name: string; isKey: boolean }[]> {
  return sql<{ name: string; isKey: boolean }[]>`
    select c.relname::text as name, c.relreplident = 'f' or exists (
      select from pg_index i where i.indrelid = c.oid and i.indisprimary and a.attnum = any (i.indkey)
    ) as "isKey"
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'shard' and not a.attisdropped
    where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by c.relname`;
}

/** Returns the tables that have the rows: tables as they are, and the partitions of partitioned ones. */
export async function listLeaves(sql: Queryable, tables: readonly string[]): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select leaf.relid::regclass::text as name
    from unnest(${tables}::text[]) with ordinality as t (name, n)
    left join lateral pg_partition_tree(t.name::regclass) as tree on true
    cross join lateral (select coalesce(tree.relid, t.name::regclass) as relid) as leaf
    join pg_class c on c.oid = leaf.relid and c.relkind = 'r'
    order by t.n, leaf.relid`;
  return rows.map(({ name }) => name);
}

/** Publishes the rows whose `shard` is in the ranges, and keeps the WAL from now on; does nothing if that was done. */
export async function publishRows(
  { name, source }: Replication,
  tables: readonly string[],
  ranges: readonly Range[],
): Promise<void> {
  const published = await source`select from pg_publication where pubname = ${name}`;
  if (published.length === 0) {
    const parts = tables.map((table) => `"${table}" where (${within('shard', ranges)})`);
    await source.unsafe(
      `create publication ${name} for table ${parts.join(', ')} with (publish_via_partition_root = true)`,
    );
  }
  // `create subscription` would wait for its own transaction if both databases are on one server.
  await source`
    select pg_create_logical_replication_slot(${name}, 'pgoutput')
    where not exists (select from pg_replication_slots where slot_name = ${name})`;
}

/** Subscribes to the publication, or enables the subscription again. `url`: the address of the source for the server of the target. */
export async function subscribe({ name, target }: Replication, url: string): Promise<void> {
  const subscribed = await isSubscribed({ name, target });
  if (subscribed) await target.unsafe(`alter subscription ${name} enable`);
  else
    await target.unsafe(
      `create subscription ${name} connection ${literal(url)} publication ${name} with (create_slot = false)`,
    );
}

/**
 * Creates a subscription without a slot, and undoes that: throws what PostgreSQL says if the user may not, or the server of the target
 * cannot connect to the source. Nothing is kept.
 */
export async function trySubscription(target: Sql, url: string): Promise<void> {
  const undone = Symbol('undone');
  await transaction(target, async (tx) => {
    await tx.unsafe(
      `create subscription halcyon_try connection ${literal(url)} publication halcyon_try
        with (create_slot = false, enabled = false, slot_name = none)`,
    );
    throw undone;
  }).catch((error: unknown) => {
    if (error !== undone) throw error;
  });
}

async function isSubscribed({ name, target }: Pick<Replication, 'name' | 'target'>): Promise<boolean> {
  const rows = await target`
    select from pg_subscription
    where subname = ${name} and subdbid = (select oid from pg_database where datname = current_database())`;
  return rows.length > 0;
}

export type CopyState = {
  tables: number;
  /** Tables that are copied and up to date. */
  ready: number;
  /** Rows and bytes of the tables that are being copied. */
  rows: number;
  bytes: number;
  /** WAL that the target has not confirmed. */
  lagBytes: number;
  /** Failures of the subscription; the log of the target's server describes them. */
  failures: number;
};

export async function readCopyState({ name, source, target }: Replication): Promise<CopyState> {
  const [copied] = await target<Omit<CopyState, 'lagBytes'>[]>`
    select count(*)::int as tables, count(*) filter (where r.srsubstate = 'r')::int as ready,
      (select coalesce(sum(tuples_processed), 0)::float8 from pg_stat_progress_copy where datname = current_database()) as rows,
      (select coalesce(sum(bytes_processed), 0)::float8 from pg_stat_progress_copy where datname = current_database()) as bytes,
      coalesce(max(t.apply_error_count + t.sync_error_count), 0)::float8 as failures
    from pg_subscription s
    join pg_subscription_rel r on r.srsubid = s.oid
    left join pg_stat_subscription_stats t on t.subid = s.oid
    where s.subname = ${name}`;
  const [slot] = await source<{ lagBytes: number }[]>`
    select pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::float8 as "lagBytes"
    from pg_replication_slots where slot_name = ${name}`;
  if (copied === undefined || slot === undefined) throw new Error(`The replication ${name} does not exist`);
  return { ...copied, ...slot };
}

/** Returns the position behind everything that is committed. */
export async function readPosition(sql: Queryable): Promise<string> {
  return (await oneOf(sql<{ position: string }[]>`select pg_current_wal_insert_lsn()::text as position`)).position;
}

/** Returns whether the target has applied everything before the position, once it does; false after `limitMs`. */
export async function untilApplied({ name, source }: Replication, position: string, limitMs: number): Promise<boolean> {
  const since = performance.now();
  for (;;) {
    const [slot] = await source<{ isApplied: boolean }[]>`
      select confirmed_flush_lsn >= ${position}::pg_lsn as "isApplied" from pg_replication_slots where slot_name = ${name}`;
    if (slot?.isApplied === true) return true;
    if (performance.now() - since > limitMs) return false;
    await delay(POLL_MS);
  }
}

/** Stops the replication, which `subscribe` continues, and waits until nothing more is applied. */
export async function stopReplication({ name, source, target }: Replication): Promise<void> {
  if (!(await isSubscribed({ name, target }))) return;
  await target.unsafe(`alter subscription ${name} disable`);
  for (;;) {
    const workers = await target`select from pg_stat_subscription where subname = ${name} and pid is not null`;
    const slots = await source`select from pg_replication_slots where slot_name = ${name} and active`;
    if (workers.length + slots.length === 0) return;
    await delay(POLL_MS);
  }
}

/** Drops subscription, slots and publication. */
export async function dropReplication(replication: Replication): Promise<void> {
  const { name, source, target } = replication;
  await stopReplication(replication);
  if (await isSubscribed(replication)) {
    const slots = await source`select from pg_replication_slots where slot_name = ${name}`;
    // A crash has left the subscription without its slot.
    if (slots.length === 0) await target.unsafe(`alter subscription ${name} set (slot_name = none)`);
    // Drops the slots of unfinished copies too.
    await target.unsafe(`drop subscription ${name}`);
  }
  await source`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = ${name}`;
  await source.unsafe(`drop publication if exists ${name}`);
}

/** Creates triggers on the tables that call `refuse_moved` with the number of the move for rows whose `shard` is in the ranges. */
export async function createGuards(
  sql: Sql,
  { move, tables, ranges }: { move: number; tables: readonly string[]; ranges: readonly Range[] },
): Promise<void> {
  const name = guardOf(move);
  for (const table of tables) {
    const existing = await sql`select from pg_trigger where tgname = ${name} and tgrelid = ${table}::regclass`;
    if (existing.length > 0) continue;
    const create = (trigger: string, when: string, row: string): string =>
      `create trigger ${trigger} ${when} on "${table}" for each row
        when (${within(`${row}.shard`, ranges)}) execute function refuse_moved(${move})`;
    await withShortLocks(sql, `A trigger on ${table}`, async (tx) => {
      await tx.unsafe(create(name, 'before insert or update', 'new'));
      await tx.unsafe(create(`${name}_delete`, 'before delete', 'old'));
    });
  }
}

const guardOf = (move: number): string => `refuse_moved_${move}`;

export async function dropGuards(sql: Sql, move: number): Promise<void> {
  const name = guardOf(move);
  const rows = await sql<{ table: string }[]>`
    select distinct tgrelid::regclass::text as table from pg_trigger
    where tgname in (${name}, ${`${name}_delete`}) and tgparentid = 0`;
  for (const { table } of rows)
    await withShortLocks(sql, `A change of the triggers on ${table}`, async (tx) => {
      await tx.unsafe(`drop trigger if exists ${name} on ${table}`);
      await tx.unsafe(`drop trigger if exists ${name}_delete on ${table}`);
    });
}

export type Replicating = {
  walLevel: string;
  freeSlots: number;
  isReplicator: boolean;
  mayPublish: boolean;
  maySubscribe: boolean;
  /** Whether the user owns the tables, as publications and triggers require; true without tables. */
  isOwner: boolean;
};

/** Returns what the server and the user of a connection can do for a replication. */
export function readReplicating(sql: Queryable): Promise<Replicating> {
  return oneOf(sql<Replicating[]>`
    select current_setting('wal_level') as "walLevel",
      current_setting('max_replication_slots')::int - (select count(*)::int from pg_replication_slots) as "freeSlots",
      rolsuper or rolreplication as "isReplicator",
      has_database_privilege(current_database(), 'create') as "mayPublish",
      rolsuper or exists (
        select from pg_roles s where s.rolname = 'pg_create_subscription' and pg_has_role(s.oid, 'usage')
      ) as "maySubscribe",
      not exists (
        select from pg_class where oid = to_regclass('shard_lease') and not pg_has_role(relowner, 'usage')
      ) as "isOwner"
    from pg_roles where rolname = current_user`);
}
