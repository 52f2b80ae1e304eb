/** Estimates how much of a database each shard is. */
import { oneOf, type Queryable } from '#db/pool.ts';
import { listLeaves } from '#db/replication.ts';
import { listMovedTables } from './tables.ts';

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
