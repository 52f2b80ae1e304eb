/** A webhook that Halcyon switches off by itself, because nothing arrives there or it answered 410; who sends to it says when. */
import type { Changelog } from '#changelog/changelog.ts';
import type { Tx } from '#db/pool.ts';
import { lockWebhook, updateWebhook } from './webhook-sql.ts';
import { recordSwitchOff } from './audit.ts';
import type { InactiveReason } from './webhook.ts';
import { settled } from './rotation/rotation.ts';

/** Answers whether it was switched off: false where it is off already, deleted, or was switched off and on since `epoch`. */
export type SwitchOff = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: InactiveReason },
  now: Date,
) => Promise<boolean>;

/** One transaction with the entry that tells of it. What is pending dies with the epoch, as in any other switch-off. */
export const createSwitchOff =
  (changelog: Changelog): SwitchOff =>
  async (tx, { shard, webhookId: id, epoch, why }, now) => {
    const row = await lockWebhook(tx, { shard, id, stores: null });
    if (row === undefined || !row.isActive || row.epoch !== epoch) return false;
    const before = settled(row, now);
    const after = { ...before, isActive: false, inactiveReason: why };
    await updateWebhook(tx, { ...after, shard, stopsDeliveries: true, now });
    await recordSwitchOff(tx, changelog, { before, after }, now);
    return true;
  };
