/** Runs the partition maintenance of a process. */
import { SHARDS } from '#core/ids.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { countDays } from './day-counts.ts';
import { firstDay, isLockUnavailable, maintainPartitions } from './partitions.ts';
import type { Sql } from './pool.ts';

/** Short, so that a computer that was suspended for days soon has the tables of the day; a check is one look-up. */
const PARTITION_CHECK_MS = 60_000;
const PARTITION_DAYS_AHEAD = 3;
const COUNT_LIMIT_MS = 20_000;
const ALL_SHARDS: readonly number[] = Array.from({ length: SHARDS }, (_, shard) => shard);

/** Creates the partitions of the coming days and drops the old ones, at once and then once a minute; counts the ended days then. */
export async function keepPartitions(deps: {
  direct: Sql;
  clock: Clock;
  log: Log;
  retentionDays: number;
}): Promise<Running> {
  const { direct, clock, log, retentionDays } = deps;
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const run = () => maintainPartitions(direct, { now: clock.now(), retentionDays, daysAhead: PARTITION_DAYS_AHEAD });
  const count = async (): Promise<void> => {
    const first = await firstDay(direct);
    const endMs = clock.monotonicMs() + COUNT_LIMIT_MS;
    const mayContinue = () => !isStopped && clock.monotonicMs() < endMs;
    if (first !== undefined) await countDays(direct, { shards: ALL_SHARDS, first, now: clock.now(), mayContinue });
  };
  const check = async (): Promise<void> => {
    await run();
    await count();
    schedule(PARTITION_CHECK_MS);
  };
  const failed = (error: unknown): void => {
    log.error({ err: error }, 'partition maintenance failed; retrying');
    schedule(PARTITION_CHECK_MS);
  };
  const schedule = (afterMs: number): void => {
    if (!isStopped) timer = setTimeout(() => void check().catch(failed), afterMs);
  };
  try {
    await run();
    schedule(PARTITION_CHECK_MS);
  } catch (error) {
    // Partitions exist for days ahead, except at the first start, when no other session holds locks.
    if (!isLockUnavailable(error)) throw error;
    failed(error);
  }
  const stop = async (): Promise<void> => {
    isStopped = true;
    clearTimeout(timer);
  };
  return { stop };
}
