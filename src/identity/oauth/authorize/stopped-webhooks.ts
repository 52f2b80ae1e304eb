/** What the consent page offers of webhooks, composed with the module that has them. */
import type { Queryable } from '#db/pool.ts';

export type StoppedWebhooks = {
  /** Returns the stores that have webhooks of the client which are off because its access ended, and how many. */
  countStopped: (
    sql: Queryable,
    client: number,
    storeIds: readonly number[],
  ) => Promise<readonly { storeId: number; count: number }[]>;
  /** Switches these webhooks on again, in the transaction of the new grant. */
  resumeWebhooks: (
    tx: Queryable,
    which: { client: number; userId: number; storeIds: readonly number[] },
    now: Date,
  ) => Promise<void>;
};
