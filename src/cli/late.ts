/** Says that a database is slow to respond: otherwise a command waits without a word. */
import type { Log } from '#core/log.ts';

const SAID_AFTER_MS = 2_000;

/** Waits for `work`, and logs the name of the database if that takes longer than two seconds. */
export async function sayIfLate<T>(log: Log, database: string, work: Promise<T>): Promise<T> {
  const timer = setTimeout(
    () => log.warn({ database }, 'a database has not responded yet; still waiting'),
    SAID_AFTER_MS,
  );
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}
