/** Auto-disable: disables a webhook whose deliveries keep failing or whose endpoint answered 410. */
import type { Changelog } from '#changelog/changelog.ts';
import type { Tx } from '#db/pool.ts';
import { deleteOfErasedStore } from './store-webhooks-sql.ts';
import { lockWebhook, updateWebhook } from './webhook-sql.ts';
import { recordAutoDisable, withCurrentKeys } from './webhook.ts';
import type { InactiveReason } from './webhook-fields.ts';

/** Returns false if the webhook is already disabled, deleted, or was disabled and enabled again since `epoch`. */
export type DisableWebhook = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: InactiveReason },
  now: Date,
) => Promise<boolean>;

/**
 * Creates the function that disables a webhook and writes the changelog entry in `tx`. The raised epoch fails pending deliveries. A webhook of
 * an erased store is deleted, which fails them too.
 */
export function createDisableWebhook(changelog: Changelog): DisableWebhook {
  return async (tx, { shard, webhookId: id, epoch, why }, now) => {
    const row = await lockWebhook(tx, { shard, id, stores: null, app: null });
    // The webhook of an app in an erased store is never enabled again.
    if (row === undefined) return deleteOfErasedStore(tx, { shard, id, epoch });
    if (!row.isActive || row.epoch !== epoch) return false;
    const before = withCurrentKeys(row, now);
    const after = { ...before, isActive: false, inactiveReason: why };
    await updateWebhook(tx, { ...after, shard, stopsDeliveries: true, now });
    await recordAutoDisable(tx, changelog, { before, after }, now);
    return true;
  };
}
