/**
 * The daily snapshots of recurring revenue. Every so often a process looks for stores of its shards with a day that is over
 * and not told of, and does one after the other on one connection: so ten thousand midnights at once are a longer round and
 * no heavier load. Shards that change hands meanwhile do no harm: of two that tell of a day one is refused.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isUnavailable } from '#database/pool.ts';
import type { Running } from '#kernel/lifecycle.ts';
import type { Log } from '#kernel/log.ts';
import { dueBooks, postpone, type DueBook } from './queries.ts';
import { tellDay, type TellingDeps } from './tell.ts';

export type SnapshotDeps = TellingDeps & {
  log: Log;
  /** The shards that this process looks after at the moment. */
  shards: () => readonly number[];
  settings: TellingDeps['settings'] & { everyMs: number; storesPerBatch: number; retryMs: number };
};

/** One day; a store that cannot be counted is left for later. Throws where the database cannot be asked. */
const turn = async (deps: SnapshotDeps, book: DueBook): Promise<boolean> => {
  const { sql, clock, log, settings } = deps;
  try {
    return await tellDay(deps, book);
  } catch (error) {
    if (isUnavailable(error)) throw error;
    log.error({ err: error, store: book.storeId, day: book.day }, 'a day of recurring revenue could not be told of');
    await postpone(sql, book, new Date(clock.now().getTime() + settings.retryMs));
    return false;
  }
};

/** Until nothing is due any more, oldest days first; answers how many snapshots were made. */
export const runRound = async (deps: SnapshotDeps, signal?: AbortSignal): Promise<number> => {
  const { sql, clock, settings } = deps;
  let made = 0;
  for (;;) {
    const asked = { shards: deps.shards(), now: clock.now(), limit: settings.storesPerBatch };
    const due = asked.shards.length === 0 ? [] : await dueBooks(sql, asked);
    for (const book of due) {
      if (signal?.aborted) return made;
      if (await turn(deps, book)) made += 1;
    }
    if (due.length === 0) return made;
  }
};

/** A round every `everyMs`, the first after that time. `stop` waits for the store that is under way and for no more. */
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
      await running;
    },
  };
};
