/**
 * One day of one store, in three steps: it is closed, counted and told of. Between them nothing is held, so a store with
 * 100,000 subscriptions stops nobody from publishing; and whoever is killed between them is followed by somebody who does the
 * same again, because a closed day amounts to the same for ever.
 */
import { transaction, type Sql } from '#db/pool.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Clock } from '#core/clock.ts';
import type { InternalEventWriter } from '../publish/internal-event.ts';
import {
  advanceBook,
  closeDay,
  endOfChunk,
  keepDay,
  sumChunk,
  limitStatements,
  type DueBook,
} from './snapshots-sql.ts';
import { added, snapshotText, type Totals } from './snapshot.ts';

export type TellingDeps = {
  sql: Sql;
  clock: Clock;
  writeFacts: InternalEventWriter;
  settings: { termsPerChunk: number; statementMs: number };
};

const close = ({ sql, clock, settings }: TellingDeps, book: DueBook): Promise<boolean> =>
  transaction(sql, async (tx) => {
    await limitStatements(tx, settings.statementMs);
    return closeDay(tx, book, clock.now());
  });

/** Each chunk is a statement of its own: they agree, because nothing of a closed day changes any more. */
const count = async ({ sql, settings }: TellingDeps, book: DueBook, signal?: AbortSignal): Promise<Totals> => {
  let totals: Totals = new Map();
  let after: string | undefined = '';
  while (after !== undefined) {
    signal?.throwIfAborted();
    const upTo: string | undefined = await endOfChunk(sql, book, { after, termsMax: settings.termsPerChunk });
    totals = added(totals, await sumChunk(sql, book, { after, upTo }));
    after = upTo;
  }
  return totals;
};

const tell = ({ sql, clock, writeFacts, settings }: TellingDeps, book: DueBook, totals: Totals): Promise<boolean> =>
  transaction(sql, async (tx) => {
    await limitStatements(tx, settings.statementMs);
    if (!(await advanceBook(tx, book))) return false;
    const now = clock.now();
    const resource = ({ id, timeZone }: { id: number; timeZone: string }) =>
      snapshotText({ id, day: book.day, dateCreated: formatDate(now, timeZone) }, totals);
    const [id = 0] = await writeFacts(
      tx,
      [{ storeId: book.storeId, type: 'subscription_mrr_snapshot', resource }],
      now,
    );
    await keepDay(tx, book, id);
    return true;
  });

/**
 * Makes the snapshot of a due book's day. False where there is none to make: the day is not over, or somebody else was faster.
 * Breaks off between two chunks when it is told to.
 */
export const tellDay = async (deps: TellingDeps, book: DueBook, signal?: AbortSignal): Promise<boolean> => {
  if (!(await close(deps, book))) return false;
  return tell(deps, book, await count(deps, book, signal));
};
