/** An outbox table in PostgreSQL. */
import { oneOf, openPool } from '#db/pool.ts';
import { beginSession, lockTable, markRows, readColumns, readLag, readRows, settleRows } from './relay-postgres-sql.ts';
import { checkTables, SILENCE_MS, type Source, type Table } from './relay-source.ts';

/** The time limit of a session that does not end by itself. */
const CLOSE_SECONDS = 1;

/** Connects, checks the tables, and takes the lock; returns undefined if another relay has it. */
export async function openPostgres(url: string, table: Table): Promise<Source | undefined> {
  const { outbox, dead } = table;
  const address = { kind: 'url', url } as const;
  const pool = openPool(address, { connections: 1, applicationName: 'halcyon-relay', silenceMs: SILENCE_MS });
  let session: Awaited<ReturnType<typeof pool.reserve>> | undefined;
  /** Waits for the end of the session, so that the next relay gets the lock. */
  const close = (): Promise<void> => {
    session?.release();
    return pool.end({ timeout: CLOSE_SECONDS });
  };
  try {
    // One session for everything: the lock ends with it.
    const sql = await pool.reserve();
    session = sql;
    const { database } = await oneOf(beginSession(sql));
    const columns = await readColumns(sql, table.schema ?? null, outbox, dead);
    checkTables(columns, table, 'postgres');
    const [{ schema } = { schema: '' }] = columns;
    if (!(await lockTable(sql, schema, outbox))) {
      await close();
      return undefined;
    }
    return {
      name: `${database}.${schema}.${outbox}`,
      read: (limit, exceptStores) => readRows(sql, outbox, { limit, exceptStores }),
      mark: (ids) => markRows(sql, outbox, ids),
      settle: (settled) => settleRows(sql, outbox, dead, settled),
      lag: () => oneOf(readLag(sql, outbox)),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
