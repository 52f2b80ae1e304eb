/**
 * Publishes the daily revenue snapshots of the shards of this process. Each round handles due stores one after the other on one
 * connection, so ten thousand simultaneous midnights make a longer round but not a higher load. A shard that changes its owner
 * during a round does no harm: of two processes that publish one day, one is rejected.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '#db/unavailable.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { dueBooks, type DueBook } from './snapshots-sql.ts';
import { publishSnapshot, type SnapshotDayDeps } from './publish-snapshot.ts';

export type SnapshotDeps = SnapshotDayDeps & {
  log: Log;
  /** Shards that this process owns at the moment. */
  shards: () => readonly number[];
  settings: SnapshotDayDeps['settings'] & { everyMs: number; storesPerBatch: number };
};

type SnapshotResult = 'published' | 'not due' | 'failed';

/** Publishes one snapshot and logs a failure. Throws if the database is unavailable. */
async function trySnapshot(deps: SnapshotDeps, book: DueBook, signal?: AbortSignal): Promise<SnapshotResult> {
  try {
    return (await publishSnapshot(deps, book, signal)) ? 'published' : 'not due';
  } catch (error) {
    if (isUnavailable(error)) throw error;
    if (signal?.aborted) return 'not due';
    const fields = { err: error, store: book.storeId, day: book.day };
    deps.log.error(fields, 'revenue snapshot failed; retrying in the next round');
    return 'failed';
  }
}

/**
 * Publishes snapshots until none is due, the oldest days first, and returns their number. A store that failed is skipped until
 * the next round.
 */
export async function runRound(deps: SnapshotDeps, signal?: AbortSignal): Promise<number> {
  const { sql, clock, settings } = deps;
  const failed = new Set<number>();
  let published = 0;
  for (;;) {
    const query = { shards: deps.shards(), except: [...failed], now: clock.now(), limit: settings.storesPerBatch };
    const due = query.shards.length === 0 ? [] : await dueBooks(sql, query);
    if (due.length === 0) return published;
    for (const book of due) {
      if (signal?.aborted) return published;
      const result = await trySnapshot(deps, book, signal);
      if (result === 'published') published += 1;
      if (result === 'failed') failed.add(book.storeId);
    }
  }
}

/** A statement that still runs then ends with the process; the next process repeats it. */
const STOP_MS = 2_000;

/** Runs a round every `everyMs`, the first after that time. `stop` waits at most `STOP_MS` for the running statement. */
export function startSnapshots(deps: SnapshotDeps): Running {
  const stopping = new AbortController();
  const { signal } = stopping;
  const run = async (): Promise<void> => {
    for (;;) {
      await delay(deps.settings.everyMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await runRound(deps, signal).catch((error: unknown) => {
        const reason = { reason: String(error) };
        deps.log.warn(reason, 'revenue snapshot round interrupted; the next round continues');
      });
    }
  };
  const running = run();
  return {
    stop: async () => {
      stopping.abort();
      const late = delay(STOP_MS, undefined, { ref: false });
      await Promise.race([running, late]);
    },
  };
}
