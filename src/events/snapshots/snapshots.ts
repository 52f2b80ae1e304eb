/**
 * The daily snapshots of recurring revenue. Every so often a process looks for stores of its shards with a day that is over
 * and not told of, and does one after the other on one connection: so ten thousand midnights at once are a longer round and
 * no heavier load. Shards that change hands meanwhile do no harm: of two that tell of a day one is refused.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '#db/unavailable.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { dueBooks, type DueBook } from './snapshots-sql.ts';
import { tellDay, type TellingDeps } from './publish-snapshot.ts';

export type SnapshotDeps = TellingDeps & {
  log: Log;
  /** The shards that this process looks after at the moment. */
  shards: () => readonly number[];
  settings: TellingDeps['settings'] & { everyMs: number; storesPerBatch: number };
};

type Turn = 'told' | 'nothing to tell' | 'failed';

/** Throws where the database cannot be asked at all. */
const turn = async (deps: SnapshotDeps, book: DueBook, signal?: AbortSignal): Promise<Turn> => {
  try {
    return (await tellDay(deps, book, signal)) ? 'told' : 'nothing to tell';
  } catch (error) {
    if (isUnavailable(error)) throw error;
    if (signal?.aborted) return 'nothing to tell';
    const about = { err: error, store: book.storeId, day: book.day };
    deps.log.error(about, 'a day of recurring revenue could not be told of; the next round tries again');
    return 'failed';
  }
};

/** Until nothing is due any more, oldest days first; answers how many snapshots were made. A store that fails has its turn over. */
export const runRound = async (deps: SnapshotDeps, signal?: AbortSignal): Promise<number> => {
  const { sql, clock, settings } = deps;
  const failed = new Set<number>();
  let made = 0;
  for (;;) {
    const asked = { shards: deps.shards(), except: [...failed], now: clock.now(), limit: settings.storesPerBatch };
    const due = asked.shards.length === 0 ? [] : await dueBooks(sql, asked);
    if (due.length === 0) return made;
    for (const book of due) {
      if (signal?.aborted) return made;
      const result = await turn(deps, book, signal);
      if (result === 'told') made += 1;
      if (result === 'failed') failed.add(book.storeId);
    }
  }
};

/** What is under way ends with the process all the same, and is done again by the next: nothing is lost by not waiting. */
const STOP_MS = 2_000;

/** A round every `everyMs`, the first after that time. `stop` waits for the statement that is under way, and not for long. */
export const startSnapshots = (deps: SnapshotDeps): Running => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const run = async (): Promise<void> => {
    for (;;) {
      await delay(deps.settings.everyMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      await runRound(deps, signal).catch((error: unknown) => {
        const reason = { reason: String(error) };
        deps.log.warn(reason, 'the round of daily snapshots was broken off; the next goes on where it ended');
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
};
