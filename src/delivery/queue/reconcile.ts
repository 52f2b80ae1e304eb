/** What no delivery leads to and no word told of, because whoever should have died, or the word was lost. */
import type { Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Log } from '#core/log.ts';
import type { Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';
import { listChanged, listPendingDisables } from './queue-sql.ts';
import type { ActiveTarget } from './target.ts';

type Deps = { sql: Sql; lanes: Lanes; owns: (shard: number) => boolean };

/** Further ones, and those who found no place, are found by the next look: these are switched off by then. */
const PENDING_DISABLES_MAX = 1_000;
const BATCH_LANES = 1_000;

/**
 * Webhooks that somebody condemned and did not live to switch off. Whoever reads their settings does, so each gets a lane that
 * wants them. Where we count the failures ourselves we know better than the table.
 */
export const findPendingDisables = async (
  { sql, lanes, owns, activate }: Deps & { activate: (lane: Lane) => void },
  shard: number,
): Promise<void> => {
  const pending = await listPendingDisables(sql, shard, PENDING_DISABLES_MAX);
  // It may have been lost while the table was read.
  if (!owns(shard)) return;
  for (const { webhookId, epoch } of pending) {
    if (!lanes.hasCapacityToDisable(shard, webhookId)) continue;
    const lane = lanes.get(shard, webhookId);
    if (lane.health !== null) continue;
    lane.pendingDisableEpoch = epoch;
    activate(lane);
  }
};

type Read = readonly [Lane, ActiveTarget];

const isActive = (read: readonly [Lane, Lane['target']]): read is Read => read[1]?.isActive === true;

/** Lanes that send by settings which are not so any more: the word of the change was lost. */
export const findStaleSettings = async (
  { sql, lanes, reload }: Deps & { reload: (lane: Lane) => void },
  shard: number,
): Promise<void> => {
  const all = [...lanes.ofShards([shard])].map((lane) => [lane, lane.target] as const).filter(isActive);
  for (let at = 0; at < all.length; at += BATCH_LANES) {
    const some = all.slice(at, at + BATCH_LANES);
    const changed = new Set(
      await listChanged(sql, shard, {
        webhookId: some.map(([{ webhookId }]) => webhookId),
        revision: some.map(([, { revision }]) => revision),
        storeDomain: some.map(([, { storeDomain }]) => storeDomain),
      }),
    );
    // One that was read again meanwhile is as the table has it.
    for (const [lane, target] of some) if (changed.has(lane.webhookId) && lane.target === target) reload(lane);
  }
};

/** What cannot be read here waits for the next look: work is found all the same. */
export const reconcile = async (
  deps: Parameters<typeof findPendingDisables>[0] & Parameters<typeof findStaleSettings>[0] & { log: Log },
  shard: number,
): Promise<void> => {
  for (const find of [findPendingDisables, findStaleSettings]) {
    try {
      await find(deps, shard);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      deps.log.warn({ shard, reason: String(error) }, 'not all settings could be compared; the next look tries again');
    }
  }
};
