/** Advisory locks, under which one process at a time works. */
import type { Queryable, Sql } from './pool.ts';

/**
 * The numbers of all of them. That of a move has the number of the move beside it, also in `refuse_moved` of the migrations; those of the
 * access of an app and of the members of a store have a hash of its id.
 */
export const LOCKS = {
  migrations: 7_209_001,
  partitions: 7_209_002,
  retention: 7_209_003,
  dayCounts: 7_209_004,
  move: 7_209_005,
  shardsCommand: 7_209_006,
  outbox: 7_209_011,
  access: 7_209_012,
  externalKeys: 7_209_013,
  accessOfApp: 7_209_014,
  membersOfStore: 7_209_015,
} as const;

/**
 * Runs the work on a connection that has the lock. The lock outlives transactions and ends with its connection, so a killed process does
 * not block others.
 */
export async function underLock<T>(sql: Sql, lock: number, work: (on: Queryable) => Promise<T>): Promise<T> {
  using connection = await sql.reserve();
  await connection`select pg_advisory_lock(${lock})`;
  return await thenUnlock(connection, lock, () => work(connection));
}

/** Runs the work under the lock, or returns false without running it if another process has the lock. */
export async function tryUnderLock(sql: Sql, lock: number, work: () => Promise<void>): Promise<boolean> {
  using connection = await sql.reserve();
  const [row] = await connection<{ isAcquired: boolean }[]>`select pg_try_advisory_lock(${lock}) as "isAcquired"`;
  if (row?.isAcquired !== true) return false;
  await thenUnlock(connection, lock, work);
  return true;
}

async function thenUnlock<T>(connection: Queryable, lock: number, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    // Fails only if the connection is lost, and the lock with it.
    await connection`select pg_advisory_unlock(${lock})`.catch(() => {});
  }
}

/**
 * Locks the access of apps in this database until the transaction ends: `shared` by transactions that enable webhooks of apps,
 * `alone` by one that applies a change of the access.
 */
export async function lockForAccess(tx: Queryable, mode: 'shared' | 'alone'): Promise<void> {
  if (mode === 'shared') await tx`select pg_advisory_xact_lock_shared(${LOCKS.access})`;
  else await tx`select pg_advisory_xact_lock(${LOCKS.access})`;
}
