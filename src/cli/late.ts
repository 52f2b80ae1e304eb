/** Names a database that is slow to respond: otherwise a command prints nothing while it waits. */
import type { Log } from '#core/log.ts';

const LATE_MS = 2_000;

/** Waits for `work`, and logs the name of the database if that takes longer than two seconds. */
export async function warnIfLate<T>(log: Log, database: string, work: Promise<T>): Promise<T> {
  const timer = setTimeout(() => log.warn({ database }, 'a database has not responded yet; still waiting'), LATE_MS);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}
