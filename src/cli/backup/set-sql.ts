/** The statements of a back-up of several databases. */
import type { Queryable } from '#db/pool.ts';

/** Returns whether the database has the tables of the map of shards; a back-up may be made before an upgrade. */
export async function hasMapTables(sql: Queryable): Promise<boolean> {
  const [table] = await sql<{ isThere: boolean }[]>`select to_regclass('shard_map') is not null as "isThere"`;
  return table?.isThere === true;
}

/** Begins a transaction, and returns the name of its snapshot, which pg_dump can use until the transaction ends. */
export async function exportSnapshot(connection: Queryable): Promise<string> {
  await connection`begin isolation level repeatable read read only`;
  await connection`select set_config('idle_in_transaction_session_timeout', '0', true)`;
  const [row] = await connection<{ snapshot: string }[]>`select pg_export_snapshot() as snapshot`;
  if (row === undefined) throw new Error('pg_export_snapshot returned no row');
  return row.snapshot;
}

export async function endSnapshot(connection: Queryable): Promise<void> {
  await connection`rollback`;
}
