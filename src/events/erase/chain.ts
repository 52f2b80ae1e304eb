/** What the events of an erased resource carried goes batch by batch, and with it the steps that were derived from it. */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { noteEvents } from './erase-sql.ts';
import {
  chainOf,
  deleteSteps,
  emptyEvents,
  endRest,
  keepRest,
  lockEvents,
  nextRest,
  stepsOf,
  takeRest,
  type Left,
  type Rest,
} from './chain-sql.ts';

type EventNames = { shard: number; ids: readonly number[] };

/** Those who hold copies of events in memory: told within the transaction, and once more after it where it is quicker. */
export type Holders = {
  announce: (tx: Queryable, events: EventNames) => Promise<void>;
  forget: (events: EventNames) => void;
};

export type ChainDeps = { sql: Sql; holders: Holders };

type Batch = { limit: number; now: Date };

/** The steps' resources, and the events by which some of them were sent again: of each at most `limit`, the others later. */
const endSteps = async (
  tx: Queryable,
  rest: Rest,
  steps: readonly number[],
  { limit, now }: Batch,
): Promise<number[]> => {
  const { shard, storeId } = rest;
  const ids: number[] = [];
  for (const headId of steps.length === 0 ? [] : await deleteSteps(tx, rest, steps)) {
    const events = await chainOf(tx, shard, headId, limit + 1);
    ids.push(...events.slice(0, limit));
    const eventId = events[limit];
    if (eventId !== undefined) await keepRest(tx, { shard, storeId, eventId, stepId: null, id: eventId }, now);
  }
  return ids;
};

/** At most `limit` events and steps together, and what the steps were sent again by; `ids` are theirs, `rest` is what is left. */
export const eraseSome = async (
  tx: Queryable,
  rest: Rest,
  { holders, limit, now }: Batch & { holders: Holders },
): Promise<{ ids: number[]; rest: Rest }> => {
  const { shard, eventId, stepId } = rest;
  // One more than there is room for: that is where it goes on.
  const events = eventId === null ? [] : await chainOf(tx, shard, eventId, limit + 1);
  const room = limit - Math.min(events.length, limit);
  const steps = stepId === null || room === 0 ? [] : await stepsOf(tx, rest, stepId, room + 1);
  const gone = steps.slice(0, room);
  const again = await endSteps(tx, rest, gone, { limit, now });
  const ids = [...new Set([...events.slice(0, limit), ...gone, ...again])];
  await lockEvents(tx, shard, ids);
  await emptyEvents(tx, shard, ids);
  await noteEvents(tx, rest, ids, now);
  await holders.announce(tx, { shard, ids });
  const after = { eventId: events[limit] ?? null, stepId: room === 0 ? stepId : (steps[room] ?? null) };
  return { ids, rest: { ...rest, ...after } };
};

export const isDone = ({ eventId, stepId }: Rest): boolean => eventId === null && stepId === null;

/** The next batch of what is left, of one or of any that nobody is at; answers its size, undefined where nothing is left. */
export const eraseRest = async (
  { sql, holders }: ChainDeps,
  of: Left | 'any',
  { limit, now }: Batch,
): Promise<number | undefined> => {
  const done = await transaction(sql, async (tx) => {
    const left = of === 'any' ? await nextRest(tx) : await takeRest(tx, of);
    if (left === undefined) return undefined;
    const { ids, rest } = await eraseSome(tx, left, { holders, limit, now });
    if (isDone(rest)) await endRest(tx, left);
    else await keepRest(tx, { ...rest, id: left.id }, now);
    return { shard: left.shard, ids };
  });
  if (done !== undefined) holders.forget(done);
  return done?.ids.length;
};
