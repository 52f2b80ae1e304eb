/** What becomes of webhooks when their store changes or goes; composed with stores, which know nothing of webhooks. */
import type { Tx } from '#db/pool.ts';
import type { WebhookDeps } from './access.ts';
import { deleteWebhooksOf, webhookIdsOf } from './store-webhooks-sql.ts';

type Store = { shard: number; storeId: number };
/** Within the transaction that changes the store; what it answers is for after the commit. */
type Follow = (tx: Tx, store: Store) => Promise<() => Promise<void>>;

export type WebhooksOfStore = {
  /** Deliveries name the store's domain: where it changes, whoever sends reads it again. */
  renew: Follow;
  /** Deletes them, which stops their deliveries. */
  erase: Follow;
};

export const createWebhooksOfStore = ({
  announce,
  onChanged,
}: Pick<WebhookDeps, 'announce' | 'onChanged'>): WebhooksOfStore => {
  const tell = async (tx: Tx, shard: number, ids: readonly number[]) => {
    await announce(tx, shard, ids);
    return async () => ids.forEach((id) => onChanged({ shard, id }));
  };
  return {
    renew: async (tx, store) => tell(tx, store.shard, await webhookIdsOf(tx, store)),
    erase: async (tx, store) => tell(tx, store.shard, await deleteWebhooksOf(tx, store)),
  };
};
