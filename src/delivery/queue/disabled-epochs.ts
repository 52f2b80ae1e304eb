/**
 * Where much died with a switch-off it is ended in the database, by the thousand: through memory, two hundred at a time, a
 * million took six minutes on a busy machine, in which all that came after a switch-on waited behind them.
 */
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Clock } from '#core/clock.ts';
import type { Log } from '#core/log.ts';
import type { Fetch, Pending } from './loaded-deliveries.ts';
import type { Lane } from './lane.ts';
import { UNUSABLE } from './target.ts';
import { endOldEpochs } from './disabled-epochs-sql.ts';

export type OldEpochDeps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
};

/** A statement takes some 50 ms: others of the shard wait for no more than one. */
const BATCH_ROWS = 2_000;
const BEGINNING = new Date(0);

/** To be called with what a fetch has brought: whether there is more than that, and its end is dead. */
export const noteOldEpochs = (lane: Lane, rows: readonly Pending[], { limit }: Fetch): void => {
  const last = rows.at(-1);
  const isOldEpoch = last !== undefined && lane.target !== null && last.epoch < lane.target.epoch;
  if (isOldEpoch && rows.length >= limit && lane.oldEpochsFrom === null) lane.oldEpochsFrom = BEGINNING;
};

/** Answers whether more may be left. Nothing of the lane is under way, whose outcome would be lost with its row. */
const endOldEpochBatch = async ({ sql, clock, log, workerId, fenceOf }: OldEpochDeps, lane: Lane): Promise<boolean> => {
  const { shard, webhookId, target, oldEpochsFrom: from } = lane;
  const fence = fenceOf(shard);
  const isKnown = target !== null && target !== UNUSABLE && fence !== undefined;
  if (from === null || from === 'one-by-one' || !isKnown || !lane.deliveries.isFullyRecorded) return false;
  try {
    const oldEpochs = { webhookId, epoch: target.epoch, from, limit: BATCH_ROWS };
    const { ended, dueAt } = await endOldEpochs(sql, workerId, { shard, fence }, oldEpochs, clock.now());
    const isAtEnd = ended < BATCH_ROWS;
    // What a clock that was set wrote further back is found from the beginning.
    lane.oldEpochsFrom = isAtEnd ? (from > BEGINNING ? BEGINNING : null) : dueAt;
    return lane.oldEpochsFrom !== null;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    // A day that was dropped, say: one by one each of them ends as well as it can.
    log.warn(
      { err: error, webhook: webhookId, shard },
      'what is pending for a webhook that was off is ended one by one',
    );
    lane.oldEpochsFrom = 'one-by-one';
    return false;
  }
};

/** Ends some of each; answers the lanes that have none left, or not so many. */
export const endOldEpochBatches = async (deps: OldEpochDeps, lanes: readonly Lane[]): Promise<Lane[]> => {
  const rest: Lane[] = [];
  for (const lane of lanes) if (!(await endOldEpochBatch(deps, lane)) && !lane.isClosed) rest.push(lane);
  return rest;
};
