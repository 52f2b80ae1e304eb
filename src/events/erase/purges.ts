/** Purges that complete erasures in the background. */
import type { Sql } from '#db/pool.ts';
import { purgesOf, type Purge } from '#db/purges.ts';
import { eraseRemaining } from './chain.ts';
import { searchCustomerCopies, type CopySearchDeps } from './customer-copies-search.ts';
import { deleteErasedEvents, insertErasedEvents, findErasedEvents } from './erase-sql.ts';

/** Erases the stored responses to these events of one store. Returns the events that may still get responses. */
export type ClearResponses = (
  sql: Sql,
  events: { shard: number; storeId: number; ids: readonly number[] },
) => Promise<readonly number[]>;

/** A delivery attempt that was running at the erasure has been recorded by then: twice the longest timeout. */
const ATTEMPT_RECORDED_AFTER_MS = 600_000;

/** Continues erasures of resources with many events that another process did not complete. */
async function eraseUnfinished(deps: CopySearchDeps, limit: number, now: Date): Promise<number> {
  let erased = 0;
  while (erased < limit) {
    const count = await eraseRemaining(deps, 'any', { limit: limit - erased, now });
    if (count === undefined) break;
    erased += count;
  }
  return erased;
}

export function createErasurePurges(deps: CopySearchDeps & { blankAnswers: ClearResponses }): readonly Purge[] {
  const eraseAnswers = async (sql: Sql, before: Date, limit: number, now: Date): Promise<number> => {
    const erasedEvents = await findErasedEvents(sql, before, limit);
    for (const [storeId, events] of Map.groupBy(erasedEvents, (event) => event.storeId)) {
      const shard = events[0]?.shard ?? 0;
      const ids = events.map(({ id }) => id);
      const pending = await deps.blankAnswers(sql, { shard, storeId, ids });
      await insertErasedEvents(sql, { shard, storeId }, pending, now);
      await deleteErasedEvents(sql, shard, ids, before);
    }
    return erasedEvents.length;
  };
  return purgesOf(deps.sql, [
    { name: 'events_of_erased_resources', by: (_, now, limit) => eraseUnfinished(deps, limit, now) },
    { name: 'rows_searched_for_erased_customers', by: (_, now, limit) => searchCustomerCopies(deps, limit, now) },
    { name: 'answers_to_erased_events', by: eraseAnswers, keptMs: ATTEMPT_RECORDED_AFTER_MS },
  ]);
}
