/** When partitions are looked after in a process. */
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { isInTheWay, maintainPartitions } from './partitions.ts';
import type { Sql } from './pool.ts';

/** One look-up: a computer that was suspended for days soon has the tables of its day. */
const PARTITION_CHECK_MS = 60_000;
const PARTITION_DAYS_AHEAD = 3;

/** Makes the partitions of the days to come and drops the old ones, now and then once a minute. */
export const keepPartitions = async (deps: {
  direct: Sql;
  clock: Clock;
  log: Log;
  retentionDays: number;
}): Promise<Running> => {
  const { direct, clock, log, retentionDays } = deps;
  const run = () => maintainPartitions(direct, { now: clock.now(), retentionDays, daysAhead: PARTITION_DAYS_AHEAD });
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const again = (afterMs: number): void => {
    if (isStopped) return;
    timer = setTimeout(() => void run().then(() => again(PARTITION_CHECK_MS), failed), afterMs);
  };
  const failed = (error: unknown): void => {
    log.error({ err: error }, 'partitions could not be kept up; it is tried again');
    again(PARTITION_CHECK_MS);
  };
  try {
    await run();
    again(PARTITION_CHECK_MS);
  } catch (error) {
    // There are partitions for days yet, unless this is the first start ever, and then nobody is in the way.
    if (!isInTheWay(error)) throw error;
    failed(error);
  }
  const stop = async (): Promise<void> => {
    isStopped = true;
    clearTimeout(timer);
  };
  return { stop };
};
