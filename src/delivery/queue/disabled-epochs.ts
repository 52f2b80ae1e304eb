/**
 * Ends large numbers of pending deliveries of older epochs in the database. Through memory, 200 at a time, a million
 * took six minutes on a busy machine and delayed all deliveries published after the webhook was enabled again.
 */
import { isUnavailable } from '#db/unavailable.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { OwnerTokens } from '../leases/ownership.ts';
import type { Fetch } from './loaded-deliveries.ts';
import type { Pending } from '../policy/entry.ts';
import type { Lane } from './lane.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';
import { endOldEpochs } from './queue-sql.ts';

/** A statement of this kind takes about 50 ms; other lanes of the shard wait for at most one. */
const BATCH_ROWS = 2_000;
const BEGINNING = new Date(0);

/** Marks the lane if a full fetch ended with a delivery of an older epoch: more of them may follow in the table. */
export function noteOldEpochs(lane: Lane, rows: readonly Pending[], { limit }: Fetch): void {
  const last = rows.at(-1);
  const isOldEpoch = last !== undefined && lane.target !== null && last.epoch < lane.target.epoch;
  if (isOldEpoch && rows.length >= limit && lane.oldEpochsFrom === null) lane.oldEpochsFrom = BEGINNING;
}

/**
 * Ends one batch of the lane and returns whether more may remain. Runs only while no attempt is in flight or
 * unrecorded, because its outcome would be lost with its row.
 */
async function endOldEpochBatch(
  { sql, clock, log }: Pick<Runtime, 'sql' | 'clock' | 'log'>,
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>,
  lane: Lane,
): Promise<boolean> {
  const { shard, webhookId, target, oldEpochsFrom: from } = lane;
  const fence = ownership.fenceOf(shard);
  const isKnown = target !== null && target !== UNUSABLE && fence !== undefined;
  if (from === null || from === 'one-by-one' || !isKnown || !lane.deliveries.isFullyRecorded) return false;
  try {
    const oldEpochs = { webhookId, epoch: target.epoch, from, limit: BATCH_ROWS };
    const { ended, dueAt } = await endOldEpochs(sql, ownership.workerId, { shard, fence }, oldEpochs, clock.now());
    const isAtEnd = ended < BATCH_ROWS;
    // One more pass from the beginning finds rows with earlier due times, written while a clock was wrong.
    lane.oldEpochsFrom = isAtEnd ? (from > BEGINNING ? BEGINNING : null) : dueAt;
    return lane.oldEpochsFrom !== null;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    // For example, a partition was dropped. The deliveries are then ended one by one.
    log.warn(
      { err: error, webhook: webhookId, shard },
      'old epochs could not be ended in a batch; ending deliveries one by one',
    );
    lane.oldEpochsFrom = 'one-by-one';
    return false;
  }
}

/** Ends one batch of each lane and returns the lanes without a remaining backlog of older epochs. */
export async function endOldEpochBatches(
  runtime: Pick<Runtime, 'sql' | 'clock' | 'log'>,
  ownership: Pick<OwnerTokens, 'workerId' | 'fenceOf'>,
  lanes: readonly Lane[],
): Promise<Lane[]> {
  const rest: Lane[] = [];
  for (const lane of lanes) if (!(await endOldEpochBatch(runtime, ownership, lane)) && !lane.isClosed) rest.push(lane);
  return rest;
}
