/** Updates webhooks when their store changes or is erased. Passed to the module stores, which does not import this one. */
import type { Tx } from '#db/pool.ts';
import type { InternalEventWriter } from '#events/publish/internal-event.ts';
import type { Accounts } from '#shards/accounts.ts';
import { announceErasure } from './app-access/app-access.ts';
import type { WebhookChanges } from './webhook-access.ts';
import { deleteStoreWebhooks, listWebhookIds } from './store-webhooks-sql.ts';

type Store = { shard: number; storeId: number };
/** Runs in the transaction that changes the store, and returns a function to call after the commit. */
type StoreChange = (tx: Tx, store: Store) => Promise<() => Promise<void>>;

export type WebhooksOfStore = {
  /** Makes workers reload the webhooks of the store, whose deliveries contain its domain. */
  renew: StoreChange;
  /**
   * Deletes the webhooks of the store, which ends their deliveries. Those that apps declare are sent `app/store_erased` first. Call it before
   * the store is deleted.
   */
  erase: (tx: Tx, store: Store, by: { now: Date }) => ReturnType<StoreChange>;
};

export function createWebhooksOfStore({
  announce,
  onChanged,
  ...events
}: Pick<WebhookChanges, 'announce' | 'onChanged'> & {
  accounts: Accounts;
  writeInternalEvents: InternalEventWriter;
}): WebhooksOfStore {
  const notify = async (tx: Tx, shard: number, ids: readonly number[]) => {
    await announce(tx, shard, ids);
    return async () => ids.forEach((id) => onChanged({ shard, id }));
  };
  return {
    renew: async (tx, store) => notify(tx, store.shard, await listWebhookIds(tx, store)),
    erase: async (tx, store, { now }) => {
      const deleted = await deleteStoreWebhooks(tx, store);
      const kept = await announceErasure(tx, events, store, now);
      return notify(tx, store.shard, [...deleted, ...kept]);
    },
  };
}
