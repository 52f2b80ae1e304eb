/** Runs the partition maintenance of a process. */
import { SHARDS } from '#core/ids.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { withAdvisoryLock } from './advisory-lock.ts';
import { countDays } from './day-counts.ts';
import { firstDay, isLockUnavailable, maintainPartitions } from './partitions.ts';
import type { Sql } from './pool.ts';

/** Short, so that a computer that was suspended for days soon has the tables of the day; a check is one look-up. */
const PARTITION_CHECK_MS = 60_000;
const PARTITION_DAYS_AHEAD = 3;
/** The advisory lock of counting; a process that does not get it leaves the counting to the other. */
const COUNT_LOCK = 7_209_004;
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
  const run = () => maintainPartitions(direct, { now: clock.now(), retentionDays, daysAhead: PARTITION_DAYS_AHEAD });
  const count = async (): Promise<void> => {
    const first = await firstDay(direct);
    if (first === undefined) return;
    const times = { shards: ALL_SHARDS, now: clock.now(), limitMs: COUNT_LIMIT_MS, nowMs: () => clock.monotonicMs() };
    await withAdvisoryLock(direct, COUNT_LOCK, () => countDays(direct, { first, ...times }));
  };
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  const schedule = (afterMs: number): void => {
    if (isStopped) return;
    timer = setTimeout(
      () =>
        void run()
          .then(count)
          .then(() => schedule(PARTITION_CHECK_MS), failed),
      afterMs,
    );
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
