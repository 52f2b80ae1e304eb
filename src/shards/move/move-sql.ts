/** The statements of moves of shards: the tables whose rows a move copies, and an estimate of how much of a database each shard is. */
import { LOCKS } from '#db/advisory-lock.ts';
import { type Queryable, oneOf } from '#db/pool.ts';
import { deleteBatch } from '#db/purges.ts';
import { listLeaves, listShardedTables } from '#db/replication.ts';
import { assignShards } from '../map-sql.ts';
import { HOME } from '../map.ts';

/** A move as the home database has it. */
export type Move = {
  id: number;
  shards: number[];
  source: number;
  target: number;
  /** How long the target has been the owner, by the clock of the home database; null before. */
  switchedForMs: number | null;
  /** Only the rows in the source are left. */
  dateEnded: Date | null;
};

/** Returns all moves whose rows in the source are not deleted. */
export async function listMoves(home: Queryable): Promise<Move[]> {
  return home<Move[]>`
    select id, shards, source, target, 
      (extract(epoch from clock_timestamp() - date_switched) * 1000)::float8 as "switchedForMs", date_ended as "dateEnded"
    from shard_move order by id`;
}

export async function insertMove(
  home: Queryable,
  { shards, source, target }: Pick<Move, 'shards' | 'source' | 'target'>,
): Promise<void> {
  await home`insert into shard_move (shards, source, target) values (${shards}::smallint[], ${source}, ${target})`;
}

export async function endMove(home: Queryable, id: number): Promise<void> {
  await home`update shard_move set date_ended = now() where id = ${id}`;
}

export async function deleteMove(home: Queryable, id: number): Promise<void> {
  await home`delete from shard_move where id = ${id}`;
}

/** Sends all webhooks of apps to a new database, which gets later changes by a trigger. */
export async function enqueueApps(home: Queryable, database: number): Promise<void> {
  await home`
    insert into outbox (database, kind, body)
    select ${database}, 'app', json_build_object('client', client) from app_webhook order by client`;
}

export async function deleteOutboxOf(home: Queryable, database: number): Promise<void> {
  await home`delete from outbox where database = ${database}`;
}

export async function hasRows(sql: Queryable, table: string, shards: readonly number[]): Promise<boolean> {
  const rows = await sql`select from ${sql(table)} where shard = any(${shards}::smallint[]) limit 1`;
  return rows.length > 0;
}

/** Deletes at most `limit` rows of a shard from a table or partition, and returns their number. */
async function deleteRows(sql: Queryable, table: string, shard: number, limit: number): Promise<number> {
  const deletes = table;
  return deleteBatch(sql, { deletes, key: 'ctid', order: ['shard'] }, sql`shard = ${shard}`, limit);
}

/** Returns the shards whose rows a database refuses to change. */
export async function listMovedShards(sql: Queryable): Promise<number[]> {
  const rows = await sql<{ shard: number }[]>`select shard from moved_shard order by shard`;
  return rows.map(({ shard }) => shard);
}

/**
 * Deletes the leases, so that no worker records a result, and makes the triggers of the move refuse changes from the commit on. Waits
 * for running writers. The leases are locked first, as by the workers, which change rows after that.
 */
export async function refuseChanges(tx: Queryable, { id, shards }: Pick<Move, 'id' | 'shards'>): Promise<void> {
  await tx`
    with leases as materialized (
      select shard, fence from shard_lease where shard = any(${shards}::smallint[]) order by shard for update
    ), deleted as (
      delete from shard_lease where shard in (select shard from leases)
    )
    insert into moved_shard (shard, fence)
    select s.shard, coalesce(l.fence, 0) from unnest(${shards}::smallint[]) as s (shard) left join leases l on l.shard = s.shard`;
  await tx`select pg_advisory_xact_lock(${LOCKS.move}, ${id})`;
}

/** Allows changes again, and gives the source its leases back, under new fencing tokens. */
export async function allowChanges(tx: Queryable, shards: readonly number[]): Promise<void> {
  await tx`
    with allowed as (
      delete from moved_shard where shard = any(${shards}::smallint[]) and date_switched is null returning shard, fence
    )
    insert into shard_lease (shard, fence) select shard, fence + 1 from allowed
    on conflict (shard) do nothing`;
}

export async function readFences(
  source: Queryable,
  shards: readonly number[],
): Promise<{ shard: number; fence: number }[]> {
  return source<{ shard: number; fence: number }[]>`
    select shard, fence from moved_shard where shard = any(${shards}::smallint[]) order by shard`;
}

/** Lets workers of the target take the shards, under new fencing tokens. */
export async function insertLeases(
  target: Queryable,
  fences: readonly { shard: number; fence: number }[],
): Promise<void> {
  await target`
    insert into shard_lease (shard, fence)
    select shard, fence + 1
    from unnest(${fences.map(({ shard }) => shard)}::smallint[], ${fences.map(({ fence }) => fence)}::bigint[]) as f (shard, fence)
    on conflict (shard) do nothing`;
}

/** Lets all stores of a database follow what their apps declare: those of moved shards may have missed the last change in the source. */
export async function followDeclarations(target: Queryable): Promise<void> {
  await target`
    insert into app_webhook_change (client, stores_total) select client, 0 from app_webhook order by client
    on conflict (client) do update set after_shard = default, after_store = default, stores_followed = default`;
}

/** Marks the shards of the source as switched: since then their rows may be deleted. */
export async function markSwitched(source: Queryable, shards: readonly number[]): Promise<void> {
  await source`
    update moved_shard set date_switched = now() where shard = any(${shards}::smallint[]) and date_switched is null`;
}

export async function deleteMovedShards(source: Queryable, shards: readonly number[]): Promise<void> {
  await source`delete from moved_shard where shard = any(${shards}::smallint[])`;
}

/** A sequence whose numbers are in ids. `last`: the last number that was used; null if none was. */
type Numbers = { name: string; last: number | null };

/** Returns the sequences of ids without a day, and those of the days from the one before `today` to the one after it. */
export async function readNumbers(sql: Queryable, today: number): Promise<Numbers[]> {
  return sql<Numbers[]>`
    select sequencename::text as name, last_value as last from pg_sequences
    where schemaname = current_schema() and (sequencename = 'id_n' or (sequencename ~ '^(event|delivery)_n_d[0-9]+$'
      and substring(sequencename from '[0-9]+$')::int between ${today - 1} and ${today + 1}))
    order by sequencename`;
}

/** Raises sequences that are lower. */
export async function raiseNumbers(target: Queryable, numbers: readonly (Numbers & { last: number })[]): Promise<void> {
  await target`
    select setval(n.name::regclass, n.last)
    from unnest(${numbers.map(({ name }) => name)}::text[], ${numbers.map(({ last }) => last)}::bigint[]) as n (name, last)
    join pg_sequences s on s.schemaname = current_schema() and s.sequencename = n.name
    where coalesce(s.last_value, -1) < n.last`;
}

/** The ids of changes of the home database that the source has applied. */
export async function listApplied(source: Queryable): Promise<number[]> {
  const rows = await source<{ id: number }[]>`select id from outbox_applied order by id`;
  return rows.map(({ id }) => id);
}

export async function insertApplied(target: Queryable, ids: readonly number[]): Promise<void> {
  await target`insert into outbox_applied (id) select id from unnest(${ids}::bigint[]) as a (id) on conflict do nothing`;
}

/** Returns whether the outbox has changes that only the source database can apply. */
async function isWaiting(tx: Queryable, { source, shards }: Move, applied: readonly number[]): Promise<boolean> {
  const rows = await tx`
    select from outbox
    where database = ${source} and (shard is null or shard = any(${shards}::smallint[])) and kind <> 'app'
      and id <> all(${applied}::bigint[])
    limit 1`;
  return rows.length > 0;
}

/**
 * Makes the target the owner, and returns true. Changes that the source has not applied (`applied`: those that it has) are applied by the
 * target; those of all shards of the source by both. Returns false if such a change waits and the target is the home database, which
 * applies none. Waits for transactions that have read the old owner and add a change.
 */
export async function switchOwner(tx: Queryable, move: Move, applied: readonly number[]): Promise<boolean> {
  const { id, shards, source, target } = move;
  await tx`lock table outbox in share row exclusive mode`;
  if (target === HOME) {
    if (await isWaiting(tx, move, applied)) return false;
    await tx`delete from outbox where database = ${source} and shard = any(${shards}::smallint[])`;
  } else {
    await tx`update outbox set database = ${target} where database = ${source} and shard = any(${shards}::smallint[])`;
    await tx`
      insert into outbox (database, kind, body)
      select ${target}, kind, body from outbox where database = ${source} and shard is null and kind <> 'app' order by id`;
  }
  await tx`update shard_move set date_switched = now() where id = ${id}`;
  await assignShards(tx, shards, target);
  return true;
}

/** Tables of accounts, which stay in the home database, and tables about a database itself. */
const NOT_MOVED: ReadonlySet<string> = new Set([
  'membership',
  'invitation',
  'awaited_member',
  'portal_session',
  'shard_lease',
  'shard_owner',
  'moved_shard',
  'outbox',
]);
/** Deleted last, because rows of other tables refer to them. */
const REFERENCED = ['webhook', 'store'];

/** The home database has these of all shards. */
const STORES: ReadonlySet<string> = new Set(['store', 'erased_store']);

/** Returns the tables, those that others refer to last. `withStores`: false if the home database is to keep the rows of all stores. */
export async function listMovedTables(sql: Queryable, { withStores }: { withStores: boolean }): Promise<string[]> {
  const tables = (await listShardedTables(sql)).filter(
    ({ name }) => !NOT_MOVED.has(name) && (withStores || !STORES.has(name)),
  );
  const without = tables.find(({ isKey }) => !isKey);
  if (without !== undefined)
    throw new Error(
      `The primary key of ${without.name} must contain shard, or its replica identity be full, so that its rows can be replicated`,
    );
  return tables.map(({ name }) => name).toSorted((a, b) => REFERENCED.indexOf(a) - REFERENCED.indexOf(b));
}

/**
 * Tables that processes read or change for all shards of a database: rows that were moved are deleted from them at once, or their
 * webhooks would be listed twice, and the end of an app's access and secrets that are sealed again could not be written. The others are
 * large, and are kept for a while.
 */
const SWEPT: ReadonlySet<string> = new Set([
  'delivery',
  'delivery_order',
  'delivery_suspect',
  'erased_chain',
  'erased_customer',
  'erased_event',
  'erased_resource',
  'idempotency_key',
  'recovery',
  'revenue_book',
  'webhook',
  'webhook_state',
]);

/** Rows of a transaction: about a tenth of a second. */
const BATCH_ROWS = 5_000;

/** Called with the number of rows that were deleted from a table or partition. */
export type OnDeleted = (table: string, rows: number) => void;

async function deleteFrom(
  sql: Queryable,
  tables: readonly string[],
  { shards, onDeleted }: { shards: readonly number[]; onDeleted: OnDeleted },
): Promise<void> {
  for (const leaf of await listLeaves(sql, tables)) {
    let rows = 0;
    // Rows that another transaction has locked are left for the next round.
    while (await hasRows(sql, leaf, shards))
      for (const shard of shards) rows += await deleteRows(sql, leaf, shard, BATCH_ROWS);
    if (rows > 0) onDeleted(leaf, rows);
  }
}

/** Deletes the rows of shards, some at a time. */
export async function deleteMoved(
  { id, sql }: { id: number; sql: Queryable },
  shards: readonly number[],
  onDeleted: OnDeleted,
): Promise<void> {
  const tables = await listMovedTables(sql, { withStores: id !== HOME });
  await deleteFrom(sql, tables, { shards, onDeleted });
}

/** Deletes the rows of shards in the tables that processes read for all shards. */
export async function deleteSwept(sql: Queryable, shards: readonly number[]): Promise<void> {
  const tables = (await listMovedTables(sql, { withStores: false })).filter((name) => SWEPT.has(name));
  await deleteFrom(sql, tables, { shards, onDeleted: () => {} });
}

export type Measure = 'bytes' | 'rows';

/** Pages (8 KB) that a sample of a table reads. */
const SAMPLE_PAGES = 2_000;

/** Returns bytes or rows by shard, from a sample of each table. */
export async function estimateLoads(sql: Queryable, measure: Measure): Promise<Map<number, number>> {
  const loads = new Map<number, number>();
  for (const table of await listLeaves(sql, await listMovedTables(sql, { withStores: true }))) {
    const size = await oneOf(sql<{ pages: number; bytes: number }[]>`
      select pg_relation_size(${table}::regclass) / current_setting('block_size')::int as pages,
        pg_total_relation_size(${table}::regclass) as bytes`);
    if (size.pages === 0) continue;
    const percent = Math.min(100, (100 * SAMPLE_PAGES) / size.pages);
    const rows = await sql<{ shard: number; count: number }[]>`
      select shard, count(*)::int as count from ${sql(table)} tablesample system (${percent}::real) group by shard`;
    const total = rows.reduce((sum, { count }) => sum + count, 0);
    const perRow = measure === 'rows' ? 100 / percent : size.bytes / total;
    for (const { shard, count } of rows) loads.set(shard, (loads.get(shard) ?? 0) + Math.round(count * perRow));
  }
  return loads;
}

/** `schema`: the last migration; null if there is none. */
export type DatabaseState = { stores: number; bytes: number; schema: number | null };

export function readDatabaseState(sql: Queryable, shards: readonly number[]): Promise<DatabaseState> {
  return oneOf(sql<DatabaseState[]>`
    select (select count(*)::int from store where shard = any(${shards}::smallint[])) as stores,
      pg_database_size(current_database())::float8 as bytes, (select max(version) from schema_migration) as schema`);
}
