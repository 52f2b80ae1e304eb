/** What an erasure leaves for housekeeping. */
import type { Sql } from '#db/pool.ts';
import type { Purge } from '#core/purge.ts';
import { eraseRest } from './chain.ts';
import { huntCopies, type HuntDeps } from './customer-copies-search.ts';
import { forgetNoted, noteEvents, notedEvents } from './erase-sql.ts';

/** Removes what receivers answered to these events of one store; answers those to which more may come. */
export type BlankAnswers = (
  sql: Sql,
  events: { shard: number; storeId: number; ids: readonly number[] },
) => Promise<readonly number[]>;

/** An exchange that was under way at the erasure is over and recorded by then: the longest time-out, and as long again. */
const SETTLED_AFTER_MS = 600_000;

/** What a process that ended has left of a resource with very many events. */
const eraseLeft = async (deps: HuntDeps, limit: number, now: Date): Promise<number> => {
  let erased = 0;
  while (erased < limit) {
    const some = await eraseRest(deps, 'any', { limit: limit - erased, now });
    if (some === undefined) break;
    erased += some;
  }
  return erased;
};

export const createErasurePurges = (deps: HuntDeps & { blankAnswers: BlankAnswers }): readonly Purge[] => [
  { name: 'events_of_erased_resources', purge: (limit, now) => eraseLeft(deps, limit, now) },
  { name: 'rows_searched_for_erased_customers', purge: (limit, now) => huntCopies(deps, limit, now) },
  {
    name: 'answers_to_erased_events',
    purge: async (limit, now) => {
      const { sql, blankAnswers } = deps;
      const before = new Date(now.getTime() - SETTLED_AFTER_MS);
      const noted = await notedEvents(sql, before, limit);
      for (const [storeId, events] of Map.groupBy(noted, (event) => event.storeId)) {
        const shard = events[0]?.shard ?? 0;
        const ids = events.map(({ id }) => id);
        const unanswered = await blankAnswers(sql, { shard, storeId, ids });
        await noteEvents(sql, { shard, storeId }, unanswered, now);
        await forgetNoted(sql, shard, ids, before);
      }
      return noted.length;
    },
  },
];
