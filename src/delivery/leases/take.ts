/** Takes shards and skips those whose rows are locked, so that one frozen lock owner does not block the others. */
import { transaction, type Sql } from '#db/pool.ts';
import { takeShards, waitForLocks, type WorkerRow } from './leases-sql.ts';

type RunQuery = <T>(query: (sql: Sql) => Promise<T>) => Promise<T>;

const LOCK_NOT_AVAILABLE = '55P03';
/** Per shard, after taking all together has failed. If all 256 are locked that is 5 s. */
const ONE_LOCK_MS = 20;

/** Returns the taken shards; runs as many transactions as it needs. `lockMs` limits how long a row lock is awaited. */
export async function takeUnlocked(
  run: RunQuery,
  worker: number,
  request: { shards: number[]; dead: readonly WorkerRow[]; lockMs: number },
): Promise<Awaited<ReturnType<typeof takeShards>>[number][]> {
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
  // Not `for update skip locked`, which distributed PostgreSQL rejects.
  if (shards.length > 1) {
    for (const shard of shards)
      taken.push(...(await takeUnlocked(run, worker, { shards: [shard], dead, lockMs: ONE_LOCK_MS })));
  }
  return taken;
}
