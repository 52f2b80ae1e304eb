/** The statements of a back-up of several databases. */
import { oneOf, type Queryable } from '#db/pool.ts';

/** Begins a transaction, and returns the name of its snapshot, which pg_dump can use until the transaction ends. */
export async function exportSnapshot(connection: Queryable): Promise<string> {
  await connection`begin isolation level repeatable read read only`;
  await connection`select set_config('idle_in_transaction_session_timeout', '0', true)`;
  return (await oneOf(connection<{ snapshot: string }[]>`select pg_export_snapshot() as snapshot`)).snapshot;
}

export async function endSnapshot(connection: Queryable): Promise<void> {
  await connection`rollback`;
}
