/** Updates the due time of the revenue snapshot when the time zone of a store changes. */
import type { Queryable } from '#db/pool.ts';
import { Problem } from '#core/problem.ts';
import { limitStatements, lockBook, updateDueTime } from './snapshots-sql.ts';

/** Publishes of subscriptions lock the book one after the other, and the store stays locked during this wait. */
const WAIT_MS = 2_000;
const CANCELLED = '57014';

/**
 * Sets the due time by the new time zone; to be called in the transaction that changes it. After a move to the east a day ends
 * earlier than the stored time. Throws a 503 if the book stays locked for too long.
 */
export async function rescheduleSnapshot(tx: Queryable, store: { shard: number; storeId: number }): Promise<void> {
  await limitStatements(tx, WAIT_MS);
  const book = await lockBook(tx, store).catch((cause: unknown) => {
    if ((cause as { code?: unknown }).code !== CANCELLED) throw cause;
    const message =
      'The time zone cannot change now because many subscriptions are being published in this store; retry in a second';
    throw new Problem(503, { code: 'busy', message }, { headers: { 'Retry-After': '1' }, cause });
  });
  if (book !== undefined) await updateDueTime(tx, book);
  await limitStatements(tx, 0);
}
