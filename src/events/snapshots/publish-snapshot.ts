/**
 * Publishes the revenue snapshot of one day of one store in three steps: close the day, count it, publish the total. No locks
 * are held between the steps, so a store with 100,000 subscriptions does not block publishing. If a process dies between two
 * steps, another repeats them with the same result, because the data of a closed day never changes.
 */
import { transaction, type Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Clock } from '#core/clock.ts';
import type { InternalEventWriter } from '../publish/internal-event.ts';
import {
  advanceBook,
  closeDay,
  endOfChunk,
  insertDay,
  sumChunk,
  limitStatements,
  type DueBook,
} from './snapshots-sql.ts';
import { addSums, snapshotText, type Totals } from './snapshot.ts';

export type SnapshotDayDeps = {
  sql: Sql;
  clock: Clock;
  writeInternalEvents: InternalEventWriter;
  settings: { termsPerChunk: number; statementMs: number };
};

const close = ({ sql, clock, settings }: SnapshotDayDeps, book: DueBook): Promise<boolean> =>
  transaction(sql, async (tx) => {
    await limitStatements(tx, settings.statementMs);
    return closeDay(tx, book, clock.now());
  });

/** Sums each chunk in its own statement; the sums are consistent because the data of a closed day does not change. */
async function count({ sql, settings }: SnapshotDayDeps, book: DueBook, signal?: AbortSignal): Promise<Totals> {
  let totals: Totals = new Map();
  let after: string | undefined = '';
  while (after !== undefined) {
    signal?.throwIfAborted();
    const upTo: string | undefined = await endOfChunk(sql, book, { after, termsMax: settings.termsPerChunk });
    totals = addSums(totals, await sumChunk(sql, book, { after, upTo }));
    after = upTo;
  }
  return totals;
}

const publishTotals = (
  { sql, clock, writeInternalEvents, settings }: SnapshotDayDeps,
  book: DueBook,
  totals: Totals,
): Promise<boolean> =>
  transaction(sql, async (tx) => {
    await limitStatements(tx, settings.statementMs);
    if (!(await advanceBook(tx, book))) return false;
    const now = clock.now();
    const resource = ({ id, timeZone }: { id: number; timeZone: string }) =>
      snapshotText({ id, day: book.day, dateCreated: formatDate(now, timeZone) }, totals);
    const [id = 0] = await writeInternalEvents(
      tx,
      [{ storeId: book.storeId, type: 'subscription_mrr_snapshot', resource }],
      now,
    );
    await insertDay(tx, book, id);
    return true;
  });

/**
 * Publishes the snapshot of a due day. Returns false if the day is not over or another process published it first. Stops
 * between two chunks when `signal` aborts.
 */
export async function publishSnapshot(deps: SnapshotDayDeps, book: DueBook, signal?: AbortSignal): Promise<boolean> {
  if (!(await close(deps, book))) return false;
  return publishTotals(deps, book, await count(deps, book, signal));
}
