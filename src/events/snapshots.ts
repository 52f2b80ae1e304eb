/**
 * Publishes the daily revenue snapshots of the shards of this process. Each round handles due stores one after the other on one
 * connection, so ten thousand simultaneous midnights make a longer round but not a higher load. A shard that changes its owner
 * during a round does no harm: of two processes that publish one day, one is rejected.
 */
import { isUnavailable } from '#db/unavailable.ts';
import { untilStopped, within, type Running, type Pace } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { transaction, type Queryable } from '#db/pool.ts';
import { REVENUE_AMOUNTS, type RevenueAmount } from '#catalog/internal-types.ts';
import type { StoreKey } from '#core/ids.ts';
import { formatDate } from '#hypermedia/date.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { textOfMillionths } from '#core/exact-number.ts';
import { temporary } from '#core/problem.ts';
import type { InternalEventWriter } from './publish/internal-event.ts';
import {
  dueBooks,
  type DueBook,
  advanceBook,
  closeDay,
  endOfChunk,
  insertDay,
  sumChunk,
  limitStatements,
  type Sums,
  lockBook,
  updateDueTime,
} from './revenue-sql.ts';

// Updates the due time of the revenue snapshot when the time zone of a store changes.

/** Publishes of subscriptions lock the book one after the other, and the store stays locked during this wait. */
const WAIT_MS = 2_000;
const CANCELLED = '57014';

/**
 * Sets the due time by the new time zone; to be called in the transaction that changes it. After a move to the east a day ends
 * earlier than the stored time. Throws a 503 if the book stays locked for too long.
 */
export async function rescheduleSnapshot(tx: Queryable, store: StoreKey): Promise<void> {
  await limitStatements(tx, WAIT_MS);
  const book = await lockBook(tx, store).catch((cause: unknown) => {
    if ((cause as { code?: unknown }).code !== CANCELLED) throw cause;
    const message =
      'The time zone cannot change now because many subscriptions are being published in this store; retry in a second';
    throw temporary(503, { code: 'busy', message }, 1, { cause });
  });
  if (book !== undefined) await updateDueTime(tx, book);
  await limitStatements(tx, 0);
}

// Adds up the sums of a day chunk by chunk and writes the JSON text of its snapshot. Pure functions.

/** Amounts are millionths. */
type Currency = { activeCount: number } & Record<RevenueAmount, bigint>;
type Totals = ReadonlyMap<string, Currency>;

const emptySums = (): Currency => ({
  activeCount: 0,
  ...(Object.fromEntries(REVENUE_AMOUNTS.map((name) => [name, 0n])) as Record<RevenueAmount, bigint>),
});

function addSums(totals: Totals, chunk: readonly Sums[]): Totals {
  const sums = new Map(totals);
  for (const one of chunk) {
    const sum = { ...(sums.get(one.currency) ?? emptySums()) };
    sum.activeCount += one.activeCount;
    for (const name of REVENUE_AMOUNTS) sum[name] += BigInt(one[name]);
    sums.set(one.currency, sum);
  }
  return sums;
}

type SnapshotHead = { id: number; day: string; dateCreated: string };

/**
 * Returns the JSON text of a snapshot. It is not made by `JSON.stringify`, because a sum may have more digits than a JavaScript
 * number holds.
 */
function snapshotText({ id, day, dateCreated }: SnapshotHead, totals: Totals): string {
  const currencies = [...totals]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, sum]) => {
      const amount = (name: RevenueAmount) => `"${name}":${textOfMillionths(sum[name])}`;
      const [mrr, ...moves] = REVENUE_AMOUNTS.map(amount);
      return `{"currency_code":"${code}",${mrr},"active_count":${sum.activeCount},${moves.join(',')}}`;
    });
  return `{"id":${id},"date":"${day}","currencies":[${currencies.join(',')}],"date_created":"${dateCreated}"}`;
}

// Publishes the revenue snapshot of one day of one store in three steps: close the day, count it, publish the total. No locks
// are held between the steps, so a store with 100,000 subscriptions does not block publishing. If a process dies between two
// steps, another repeats them with the same result, because the data of a closed day never changes.

type SnapshotDayDeps = Pick<Runtime, 'sql' | 'clock'> & {
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
export function startSnapshots(deps: SnapshotDeps & { pace: Pace }): Running {
  const run = (signal: AbortSignal) =>
    runRound(deps, signal).catch((error: unknown) => {
      const reason = { reason: String(error) };
      deps.log.warn(reason, 'revenue snapshot round interrupted; the next round continues');
    });
  return within(
    STOP_MS,
    untilStopped((signal) => deps.pace.repeat(deps.settings.everyMs, () => run(signal), signal)),
  );
}
