/** Work that one process does at a time, whoever it is. */
import type { Sql } from './pool.ts';

/**
 * Does the work under a session's advisory lock, or nothing where another process is at it: then false. The lock ends
 * with its connection, so that a process that was killed holds nobody up. Numbers of `migrate.ts` and `partitions.ts` differ.
 */
export const runAlone = async (sql: Sql, lock: number, work: () => Promise<void>): Promise<boolean> => {
  const connection = await sql.reserve();
  try {
    const [row] = await connection<{ isOurs: boolean }[]>`select pg_try_advisory_lock(${lock}) as "isOurs"`;
    if (row?.isOurs !== true) return false;
    try {
      await work();
    } finally {
      // Fails only when the connection is gone, and the lock is gone with it.
      await connection`select pg_advisory_unlock(${lock})`.catch(() => {});
    }
    return true;
  } finally {
    connection.release();
  }
};
