/** A store that moves to another time zone takes its days along. */
import type { Queryable } from '#db/pool.ts';
import { Problem } from '#core/problem.ts';
import { limitStatements, moveDue } from './snapshots-sql.ts';

/** Publishes of subscriptions hold the book one after the other, and the store stays locked while this waits for them. */
const WAIT_MS = 2_000;
const CANCELLED = '57014';

/**
 * To be called in the transaction that changes the zone: to the east a day is over sooner than the book says, and nobody would
 * look. Throws a 503 where the book is held for too long.
 */
export const followZone = async (tx: Queryable, store: { shard: number; storeId: number }): Promise<void> => {
  await limitStatements(tx, WAIT_MS);
  await moveDue(tx, store).catch((cause: unknown) => {
    if ((cause as { code?: unknown }).code !== CANCELLED) throw cause;
    const message =
      'So much is being published into this store that its days cannot move now: send it again in a second';
    throw new Problem(503, { code: 'busy', message }, { headers: { 'Retry-After': '1' }, cause });
  });
  await limitStatements(tx, 0);
};
