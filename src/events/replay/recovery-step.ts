/**
 * A turn of one recovery: the step that is next for it, in one short transaction. Its states are in docs/delivery-states.md. Whoever
 * dies between two steps is followed by somebody who goes on at the cursor; of two at once the cursor lets one go on.
 */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { RecoveryMetrics } from './metrics.ts';
import { cut, nextStretch, type Stretch } from './missed.ts';
import {
  areOlderOver,
  endRecovery,
  pendingOf,
  startRecovery,
  writePage,
  type End,
  type OpenRecovery,
  type Page,
} from './recovery-sql.ts';

type MadeDelivery = { shard: number; webhookId: number; deliveryId: number };

export type TurnDeps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  metrics: Pick<RecoveryMetrics, 'made' | 'ended'>;
  /** Told within the transaction of the deliveries that a page makes: they are there when it commits. */
  announce: (tx: Queryable, deliveries: readonly MadeDelivery[]) => Promise<void>;
  settings: RecoverySettings;
};

export type RecoverySettings = {
  /** While so many deliveries of the webhook are due, recovered or not, no more are made: a live one waits behind no more than these. */
  dueDeliveriesMax: number;
  /** Nor while so many are pending at all: those that fail at this endpoint are put off, and would pile up. */
  pendingDeliveriesMax: number;
  /** A page has at least so much room: many small ones would cost more than they bring. */
  pageDeliveriesMin: number;
};

/** `moved`: there may be more to do at once. `held`: not before others have done something. */
export type Turn = 'moved' | 'held' | 'ended';

/** What is known to be missing of recoveries that run, by their ids. It is true as long as the cursor stands where it begins. */
export type Stretches = Map<number, Stretch>;

/** Others have written the page, or the recovery ended meanwhile. */
class Overtaken extends Error {
  override readonly message = 'the page is not ours to write';
}

const end = async (
  { sql, clock, log, metrics }: TurnDeps,
  recovery: OpenRecovery,
  state: Exclude<End, 'cancelled'>,
): Promise<Turn> => {
  if (await endRecovery(sql, recovery, state, clock.now())) {
    const { id, webhookId, storeId, eventsSeen, eventsRecovered } = recovery;
    log.info(
      { recovery: id, webhook: webhookId, store: storeId, state, eventsSeen, eventsRecovered },
      'a recovery ended',
    );
    metrics.ended(state);
  }
  return 'ended';
};

const start = async ({ sql, clock, log }: TurnDeps, recovery: OpenRecovery): Promise<Turn> => {
  if (!(await areOlderOver(sql, recovery.olderTransactions))) return 'held';
  const events = await startRecovery(sql, recovery, clock.now());
  const { id, webhookId, storeId, since } = recovery;
  if (events !== undefined)
    log.info({ recovery: id, webhook: webhookId, store: storeId, since, events }, 'a recovery begins');
  return 'moved';
};

/** False where it was overtaken. */
const write = async (
  { sql, clock, announce, metrics }: TurnDeps,
  recovery: OpenRecovery,
  page: Page,
): Promise<boolean> => {
  const { shard, webhookId } = recovery;
  try {
    const ids = await transaction(sql, async (tx) => {
      const { isMoved, deliveryIds } = await writePage(tx, recovery, page, clock.now());
      if (!isMoved) throw new Overtaken();
      const made = deliveryIds.map((deliveryId) => ({ shard, webhookId, deliveryId }));
      if (made.length > 0) await announce(tx, made);
      return deliveryIds;
    });
    metrics.made(ids.length);
    return true;
  } catch (error) {
    if (error instanceof Overtaken) return false;
    throw error;
  }
};

/** How many deliveries may be made now; 0 where the webhook has enough to do. */
const roomOf = async ({ sql, clock, settings }: TurnDeps, recovery: OpenRecovery): Promise<number> => {
  const { dueDeliveriesMax, pendingDeliveriesMax, pageDeliveriesMin } = settings;
  const { total, due } = await pendingOf(sql, recovery, pendingDeliveriesMax, clock.now());
  const room = Math.min(dueDeliveriesMax - due, pendingDeliveriesMax - total);
  return room < pageDeliveriesMin ? 0 : room;
};

const isStarted = (recovery: OpenRecovery): recovery is OpenRecovery & { untilEventId: number } =>
  recovery.state === 'running' && recovery.untilEventId !== null;

/** Throws where the database cannot be asked, or a page fails. */
export const turn = async (deps: TurnDeps, recovery: OpenRecovery, stretches: Stretches): Promise<Turn> => {
  const { id, afterEventId } = recovery;
  const known = stretches.get(id);
  stretches.delete(id);
  if (recovery.isOff) return end(deps, recovery, 'stopped');
  if (!isStarted(recovery)) return start(deps, recovery);
  if (afterEventId >= recovery.untilEventId) return end(deps, recovery, 'finished');
  const room = await roomOf(deps, recovery);
  const stretch = known?.from === afterEventId ? known : undefined;
  if (room === 0) {
    if (stretch !== undefined) stretches.set(id, stretch);
    return 'held';
  }
  const { page, rest } = cut(stretch ?? (await nextStretch(deps.sql, recovery)), room);
  if ((await write(deps, recovery, page)) && rest !== undefined) stretches.set(id, rest);
  return 'moved';
};
