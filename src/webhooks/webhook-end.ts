/** What changes webhooks from outside: auto-disable after failures or a 410, and changes of their store or its erasure. */
import type { Tx } from '#db/pool.ts';
import type { InternalEventWriter } from '#events/publish/internal-event.ts';
import type { Accounts } from '#shards/map.ts';
import type { Changelog } from '#changelog/changelog.ts';
import { announceErasure } from './app-access/app-access.ts';
import type { OperatorOutbox } from './operator/operator-events.ts';
import type { WebhookChanges } from './webhook-access.ts';
import { deleteStoreWebhooks, listWebhookIds, deleteOfErasedStore, lockWebhook, updateWebhook } from './webhook-sql.ts';
import { withCurrentKeys } from '#core/keys.ts';
import { recordWebhook } from './webhook.ts';
import type { InactiveReason } from './webhook-fields.ts';
import type { StoreKey } from '#core/ids.ts';

/** Returns false if the webhook is already disabled, deleted, or was disabled and enabled again since `epoch`. */
export type DisableWebhook = (
  tx: Tx,
  failed: { shard: number; webhookId: number; epoch: number; why: InactiveReason },
  now: Date,
) => Promise<boolean>;

/**
 * Creates the function that disables a webhook and writes the changelog entry and the event for the operator in `tx`. The raised epoch fails pending deliveries. A webhook of
 * an erased store is deleted, which fails them too.
 */
export function createDisableWebhook({
  changelog,
  noteDisabled,
}: Pick<OperatorOutbox, 'noteDisabled'> & { changelog: Changelog }): DisableWebhook {
  return async (tx, { shard, webhookId: id, epoch, why }, now) => {
    const row = await lockWebhook(tx, { shard, id, stores: null, app: null });
    // The webhook of an app in an erased store is never enabled again.
    if (row === undefined) return deleteOfErasedStore(tx, { shard, id, epoch });
    if (!row.isActive || row.epoch !== epoch) return false;
    const before = withCurrentKeys(row, now);
    const after = { ...before, isActive: false, inactiveReason: why };
    await updateWebhook(tx, { ...after, shard, stopsDeliveries: true, now });
    await recordWebhook(tx, changelog, { before, after }, { principal: null, now, action: 'deactivated' });
    await noteDisabled(tx, { storeId: row.storeId, id, why }, now);
    return true;
  };
}

/** Each runs in the transaction that changes the store. */
export function createWebhooksOfStore({
  announceChanges,
  ...events
}: {
  announceChanges: WebhookChanges['announce'];
  accounts: Accounts;
  writeInternalEvents: InternalEventWriter;
}) {
  return {
    /** Makes workers reload the webhooks of the store, whose deliveries contain its domain. */
    renew: async (tx: Tx, store: StoreKey): Promise<void> => {
      await announceChanges(tx, store.shard, await listWebhookIds(tx, store));
    },
    /**
     * Deletes the webhooks of the store, which ends their deliveries. Those that apps declare are sent `app/store_erased` first. Call it
     * before the store is deleted.
     */
    erase: async (tx: Tx, store: StoreKey, { now }: { now: Date }): Promise<void> => {
      const deleted = await deleteStoreWebhooks(tx, store);
      const kept = await announceErasure(tx, events, store, now);
      await announceChanges(tx, store.shard, [...deleted, ...kept]);
    },
  };
}
