/**
 * Performs the next step of one recovery in one short transaction; docs/delivery-states.md has the states. If a process dies
 * between two steps, another continues at the cursor; of two concurrent writers the cursor admits one.
 */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { RecoveryMetrics } from './metrics.ts';
import { splitPage, findRange, passing, type EventRange } from './missed.ts';
import {
  haveTransactionsEnded,
  endRecovery,
  pendingOf,
  startRecovery,
  writePage,
  type End,
  type OpenRecovery,
  type Page,
} from './recovery-sql.ts';

type MadeDelivery = { shard: number; webhookId: number; deliveryId: number };

export type StepDeps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: Pick<RecoveryMetrics, 'made' | 'ended'>;
  /** Called within the transaction with the deliveries of a page, which exist when it commits. */
  announce: (tx: Queryable, deliveries: readonly MadeDelivery[]) => Promise<void>;
  settings: RecoverySettings;
};

export type RecoverySettings = {
  /**
   * Recovered deliveries are created only while fewer deliveries of the webhook are due; this limits how many a live delivery
   * waits for.
   */
  dueDeliveriesMax: number;
  /**
   * Recovered deliveries are created only while fewer are pending in total; failing deliveries are rescheduled and would
   * accumulate.
   */
  pendingDeliveriesMax: number;
  /** Minimum size of a page, because many small pages cost more than they achieve. */
  pageDeliveriesMin: number;
};

/** `moved`: the next step may follow at once. `waiting`: it waits for deliveries or transactions. */
export type StepResult = 'moved' | 'waiting' | 'ended';

/** Ranges of missed events by recovery id. A range is valid while the cursor is at its beginning. */
export type EventRanges = Map<number, EventRange>;

/** Another process has written the page, or the recovery has ended. */
class PageConflict extends Error {
  override readonly message = 'another process has written the page';
}

async function end(
  { sql, clock, log, metrics }: StepDeps,
  recovery: OpenRecovery,
  state: Exclude<End, 'cancelled'>,
): Promise<StepResult> {
  if (await endRecovery(sql, recovery, state, clock.now())) {
    const { id, webhookId, storeId, eventsSeen, eventsRecovered } = recovery;
    log.info(
      { recovery: id, webhook: webhookId, store: storeId, state, eventsSeen, eventsRecovered },
      'recovery ended',
    );
    metrics.ended(state);
  }
  return 'ended';
}

async function start({ sql, clock, log }: StepDeps, recovery: OpenRecovery): Promise<StepResult> {
  if (!(await haveTransactionsEnded(sql, recovery.olderTransactions))) return 'waiting';
  const events = await startRecovery(sql, recovery, clock.now());
  const { id, webhookId, storeId, since } = recovery;
  if (events !== undefined)
    log.info({ recovery: id, webhook: webhookId, store: storeId, since, events }, 'recovery started');
  return 'moved';
}

/** Writes a page. Returns false after a `PageConflict`. */
async function write(
  { sql, clock, announce, metrics }: StepDeps,
  recovery: OpenRecovery,
  page: Page,
): Promise<boolean> {
  const { shard, webhookId } = recovery;
  try {
    const ids = await transaction(sql, async (tx) => {
      const { isMoved, deliveryIds } = await writePage(tx, recovery, page, clock.now());
      if (!isMoved) throw new PageConflict();
      const made = deliveryIds.map((deliveryId) => ({ shard, webhookId, deliveryId }));
      if (made.length > 0) await announce(tx, made);
      return deliveryIds;
    });
    metrics.made(ids.length);
    return true;
  } catch (error) {
    if (error instanceof PageConflict) return false;
    throw error;
  }
}

/** Returns the number of deliveries that may be created now; 0 if the webhook has too many pending ones. */
async function capacityOf({ sql, clock, settings }: StepDeps, recovery: OpenRecovery): Promise<number> {
  const { dueDeliveriesMax, pendingDeliveriesMax, pageDeliveriesMin } = settings;
  const { total, due } = await pendingOf(sql, recovery, pendingDeliveriesMax, clock.now());
  const capacity = Math.min(dueDeliveriesMax - due, pendingDeliveriesMax - total);
  return capacity < pageDeliveriesMin ? 0 : capacity;
}

const isStarted = (recovery: OpenRecovery): recovery is OpenRecovery & { untilEventId: number } =>
  recovery.state === 'running' && recovery.untilEventId !== null;

/** Performs the next step. Throws if the database is unavailable or a page fails. */
export async function runStep(deps: StepDeps, recovery: OpenRecovery, ranges: EventRanges): Promise<StepResult> {
  const { id, afterEventId } = recovery;
  const knownRange = ranges.get(id);
  ranges.delete(id);
  if (recovery.isWebhookInactive) return end(deps, recovery, 'stopped');
  if (!isStarted(recovery)) return start(deps, recovery);
  if (afterEventId >= recovery.untilEventId) return end(deps, recovery, 'finished');
  const capacity = await capacityOf(deps, recovery);
  const range = knownRange?.from === afterEventId ? knownRange : undefined;
  if (capacity === 0) {
    if (range !== undefined) ranges.set(id, range);
    return 'waiting';
  }
  const { page, rest } = splitPage(range ?? (await findRange(deps.sql, recovery)), capacity);
  if ((await write(deps, recovery, await passing(deps.sql, recovery, page))) && rest !== undefined)
    ranges.set(id, rest);
  return 'moved';
}
