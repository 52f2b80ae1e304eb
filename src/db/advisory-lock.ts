/** Runs work in one process at a time. */
import type { Sql } from './pool.ts';

/**
 * Runs the work under a session's advisory lock; returns false without running it if another process has the lock. The lock ends
 * with its connection, so a killed process does not block others. The numbers of `migrate.ts` and `partitions.ts` differ.
 */
export async function withAdvisoryLock(sql: Sql, lock: number, work: () => Promise<void>): Promise<boolean> {
  const connection = await sql.reserve();
  try {
    const [row] = await connection<{ isAcquired: boolean }[]>`select pg_try_advisory_lock(${lock}) as "isAcquired"`;
    if (row?.isAcquired !== true) return false;
    try {
      await work();
    } finally {
      // Fails only if the connection is lost, and the lock with it.
      await connection`select pg_advisory_unlock(${lock})`.catch(() => {});
    }
    return true;
  } finally {
    connection.release();
  }
}
