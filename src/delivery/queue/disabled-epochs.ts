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
import { endDead } from './disabled-epochs-sql.ts';

export type DeadDeps = {
  sql: Sql;
  clock: Clock;
  log: Log;
  workerId: number;
  fenceOf: (shard: number) => number | undefined;
};

/** A statement takes some 50 ms: others of the shard wait for no more than one. */
const AT_ONCE = 2_000;
const BEGINNING = new Date(0);

/** To be called with what a fetch has brought: whether there is more than that, and its end is dead. */
export const noteDead = (lane: Lane, rows: readonly Pending[], { asked }: Fetch): void => {
  const last = rows.at(-1);
  const isDead = last !== undefined && lane.target !== null && last.epoch < lane.target.epoch;
  if (isDead && rows.length >= asked && lane.deadFrom === null) lane.deadFrom = BEGINNING;
};

/** Answers whether more may be left. Nothing of the lane is under way, whose outcome would be lost with its row. */
const endSome = async ({ sql, clock, log, workerId, fenceOf }: DeadDeps, lane: Lane): Promise<boolean> => {
  const { shard, webhookId, target, deadFrom: from } = lane;
  const fence = fenceOf(shard);
  const isKnown = target !== null && target !== UNUSABLE && fence !== undefined;
  if (from === null || from === 'refused' || !isKnown || !lane.holding.isSettled) return false;
  try {
    const dead = { webhookId, epoch: target.epoch, from, limit: AT_ONCE };
    const { ended, dueAt } = await endDead(sql, workerId, { shard, fence }, dead, clock.now());
    const isAtEnd = ended < AT_ONCE;
    // What a clock that was set wrote further back is found from the beginning.
    lane.deadFrom = isAtEnd ? (from > BEGINNING ? BEGINNING : null) : dueAt;
    return lane.deadFrom !== null;
  } catch (error) {
    if (isUnavailable(error)) throw error;
    // A day that was dropped, say: one by one each of them ends as well as it can.
    log.warn(
      { err: error, webhook: webhookId, shard },
      'what is pending for a webhook that was off is ended one by one',
    );
    lane.deadFrom = 'refused';
    return false;
  }
};

/** Ends some of each; answers the lanes that have none left, or not so many. */
export const endMany = async (deps: DeadDeps, lanes: readonly Lane[]): Promise<Lane[]> => {
  const rest: Lane[] = [];
  for (const lane of lanes) if (!(await endSome(deps, lane)) && !lane.isClosed) rest.push(lane);
  return rest;
};
