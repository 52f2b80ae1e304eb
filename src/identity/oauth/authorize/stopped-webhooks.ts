/**
 * The interface by which an approval enables webhooks that were disabled when the app's access ended; composed with the
 * webhooks module.
 */
import type { Queryable } from '#db/pool.ts';

export type StoppedWebhooks = {
  /** Returns the number of the client's webhooks that were disabled when its access ended, by store. */
  countStopped: (
    sql: Queryable,
    client: number,
    storeIds: readonly number[],
  ) => Promise<readonly { storeId: number; count: number }[]>;
  /** Enables these webhooks again, in the transaction of the new grant. */
  resumeWebhooks: (
    tx: Queryable,
    which: { client: number; userId: number; storeIds: readonly number[] },
    now: Date,
  ) => Promise<void>;
};
