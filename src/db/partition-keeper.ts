/** Runs the partition maintenance of a process. */
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { isLockUnavailable, maintainPartitions } from './partitions.ts';
import type { Sql } from './pool.ts';

/** Short, so that a computer that was suspended for days soon has the tables of the day; a check is one look-up. */
const PARTITION_CHECK_MS = 60_000;
const PARTITION_DAYS_AHEAD = 3;

/** Creates the partitions of the coming days and drops the old ones, at once and then once a minute. */
export async function keepPartitions(deps: {
  direct: Sql;
  clock: Clock;
  log: Log;
  retentionDays: number;
}): Promise<Running> {
  const { direct, clock, log, retentionDays } = deps;
  const run = () => maintainPartitions(direct, { now: clock.now(), retentionDays, daysAhead: PARTITION_DAYS_AHEAD });
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const schedule = (afterMs: number): void => {
    if (isStopped) return;
    timer = setTimeout(() => void run().then(() => schedule(PARTITION_CHECK_MS), failed), afterMs);
  };
  const failed = (error: unknown): void => {
    log.error({ err: error }, 'partition maintenance failed; retrying');
    schedule(PARTITION_CHECK_MS);
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
