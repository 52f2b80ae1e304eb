/** Attempts pending deliveries at once, because a request asked for it or has repaired the webhook. */
import type { Queryable } from '#db/pool.ts';
import { announceRetry } from './announce.ts';
import { endBackoff, makeDue, type Retried } from './retry-sql.ts';

/**
 * Makes a delivery of a locked webhook due, or all pending ones, ends the pause that its endpoint asked for, and lets the owner of
 * the shard send a probe at once. The first success closes the breaker; a failure counts as always.
 */
export async function retryNow(tx: Queryable, retried: Retried): Promise<void> {
  await makeDue(tx, retried);
  await endBackoff(tx, retried);
  await announceRetry(tx, retried);
}
