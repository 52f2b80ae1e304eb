/** What becomes of webhooks when their store changes or goes; composed with stores, which know nothing of webhooks. */
import type { Sql, Tx } from '#database/pool.ts';
import type { WebhookDeps } from '../access.ts';
import { deleteWebhooksOf, webhookIdsOf } from './queries.ts';

type Store = { shard: number; storeId: number };

export type WebhooksOfStore = {
  /** Deliveries name the store's domain: after it changed, whoever sends reads it again. */
  renew: (store: Store) => Promise<void>;
  /** Deletes them in the given transaction; what it answers stops their deliveries, and is for after the commit. */
  erase: (tx: Tx, store: Store) => Promise<() => Promise<void>>;
};

export const createWebhooksOfStore = ({
  sql,
  onChanged,
}: Pick<WebhookDeps, 'onChanged'> & { sql: Sql }): WebhooksOfStore => {
  const tell = async (shard: number, ids: readonly number[]): Promise<void> => {
    await Promise.all(ids.map((id) => onChanged({ shard, id })));
  };
  return {
    renew: async (store) => tell(store.shard, await webhookIdsOf(sql, store)),
    erase: async (tx, store) => {
      const ids = await deleteWebhooksOf(tx, store);
      return () => tell(store.shard, ids);
    },
  };
};
