/** The interface by which a client declares a webhook for all stores that let it in; composed with the webhooks module. */
import type { Queryable } from '#db/pool.ts';
import type { Fault } from '#core/problem.ts';

export type AppWebhooks = {
  /** Returns the faults of a url; `label` names it in messages. */
  faultsOf: (url: string | null, label?: string) => Promise<Fault[]>;
  /**
   * Declares the webhook of a client (its internal id), changes its url, or removes it (null), in the transaction that has inserted or
   * locked the client.
   */
  declare: (tx: Queryable, client: number, url: string | null, now: Date) => Promise<void>;
  /** Returns the key that signs the deliveries; null if the client declares no webhook, or if the key cannot be decrypted. */
  keyOf: (sql: Queryable, client: number) => Promise<string | null>;
};
