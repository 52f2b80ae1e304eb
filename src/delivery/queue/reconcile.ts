/** Finds webhooks whose notification was missed: pending disables and stale settings. */
import { isUnavailable } from '#db/unavailable.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Ownership } from '../leases/ownership.ts';
import type { Lane } from './lane.ts';
import type { Lanes } from './lanes.ts';
import type { LaneWork } from '../worker-links.ts';
import { listChanged, listPendingDisables } from './queue-sql.ts';
import type { ActiveTarget } from '../attempt/delivery-target.ts';

type ReconcileParts = { lanes: Lanes; ownership: Pick<Ownership, 'owns'>; work: Pick<LaneWork, 'send' | 'reload'> };

/** Maximum per scan; the next scan finds the rest, because these are disabled by then. */
const PENDING_DISABLES_MAX = 1_000;
const BATCH_LANES = 1_000;

/**
 * Activates lanes with a pending disable that a crashed owner did not execute: reading their settings executes it.
 * Lanes whose health is counted in memory are skipped, because it is newer than the table.
 */
export async function findPendingDisables(
  { sql }: Pick<Runtime, 'sql'>,
  { lanes, ownership, work }: ReconcileParts,
  shard: number,
): Promise<void> {
  const pending = await listPendingDisables(sql, shard, PENDING_DISABLES_MAX);
  // The shard may have been lost during the read.
  if (!ownership.owns(shard)) return;
  for (const { webhookId, epoch } of pending) {
    if (!lanes.hasCapacityToDisable(shard, webhookId)) continue;
    const lane = lanes.get(shard, webhookId);
    if (lane.health !== null) continue;
    lane.pendingDisableEpoch = epoch;
    work.send([lane]);
  }
}

type LoadedLane = readonly [Lane, ActiveTarget];

const isActive = (loaded: readonly [Lane, Lane['target']]): loaded is LoadedLane => loaded[1]?.isActive === true;

/** Reloads lanes whose settings changed in the table without a notification. */
export async function findStaleSettings(
  { sql }: Pick<Runtime, 'sql'>,
  { lanes, work }: ReconcileParts,
  shard: number,
): Promise<void> {
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
    // A lane that was read again meanwhile is up to date.
    for (const [lane, target] of some) if (changed.has(lane.webhookId) && lane.target === target) work.reload(lane);
  }
}

/** Runs both searches. An error is logged and left to the next scan, so that it does not stop discovery. */
export async function reconcile(
  runtime: Pick<Runtime, 'sql' | 'log'>,
  parts: ReconcileParts,
  shard: number,
): Promise<void> {
  for (const find of [findPendingDisables, findStaleSettings]) {
    try {
      await find(runtime, parts, shard);
    } catch (error) {
      if (isUnavailable(error)) throw error;
      runtime.log.warn({ shard, reason: String(error) }, 'reconciliation failed; the next scan retries');
    }
  }
}
