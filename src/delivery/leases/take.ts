/** Takes shards, and leaves those whose rows somebody has locked: whoever vanished holding one keeps no other from us. */
import { transaction, type Sql } from '#db/pool.ts';
import { takeShards, waitForLocks, type WorkerRow } from './leases-sql.ts';

type RunQuery = <T>(query: (sql: Sql) => Promise<T>) => Promise<T>;

const LOCK_NOT_AVAILABLE = '55P03';
/** For one shard after the other, where not all could be taken together. All of them locked are 5 s. */
const ONE_LOCK_MS = 20;

/** `lockMs`: how long the lock of a row is waited for. Answers what was taken; asks in as many transactions as it needs. */
export const takeUnlocked = async (
  run: RunQuery,
  worker: number,
  request: { shards: number[]; dead: readonly WorkerRow[]; lockMs: number },
): Promise<Awaited<ReturnType<typeof takeShards>>[number][]> => {
  const { shards, dead, lockMs } = request;
  const take = () =>
    run((sql) =>
      transaction(sql, async (tx) => {
        await waitForLocks(tx, lockMs);
        return [...(await takeShards(tx, worker, shards, dead))];
      }),
    );
  try {
    return await take();
  } catch (error) {
    if ((error as { code?: unknown }).code !== LOCK_NOT_AVAILABLE) throw error;
  }
  const taken = [];
  // Not `for update skip locked`, which distributed PostgreSQL refuses.
  if (shards.length > 1) {
    for (const shard of shards)
      taken.push(...(await takeUnlocked(run, worker, { shards: [shard], dead, lockMs: ONE_LOCK_MS })));
  }
  return taken;
};
