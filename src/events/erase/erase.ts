/** The end of one resource: its latest version, what all of its events carried, and the steps that were derived from it. */
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import { transaction } from '#db/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { wordsOf } from '#catalog/catalog.ts';
import { endTerm, holdBooks } from '../publish/subscription-sql.ts';
import { eraseRest, eraseSome, isDone, type ChainDeps } from './chain.ts';
import { keepRest } from './chain-sql.ts';
import { deleteResource, lockResource, noteCustomer } from './erase-sql.ts';

/** So many events a transaction: publishers of the resource and the book of its store wait for the first of them. */
const EVENTS_AT_ONCE = 2_000;

/**
 * When it is fulfilled, nothing of the resource can be read or sent any more. All of it is one transaction, unless it has more
 * than `EVENTS_AT_ONCE` events: then the resource goes with the newest, and the others follow batch by batch; should this
 * process end meanwhile, housekeeping goes on with them. The events themselves stay, with their ids. Copies of a customer are
 * left for housekeeping too, and so is what receivers answered. Throws a 404 where there is no such resource.
 */
export const eraseResource = async (
  deps: ChainDeps,
  key: ResourceKey,
  { unmodified, now }: Pick<ApiRequest, 'unmodified' | 'now'>,
): Promise<void> => {
  const { sql, holders } = deps;
  const { shard, storeId } = key;
  const batch = { limit: EVENTS_AT_ONCE, now };
  const { ids, left } = await transaction(sql, async (tx) => {
    // Shared with publishes, which hold the resource when they take it: only the end of a day waits for it, and holds nothing.
    const columns = { shard: [shard], storeId: [storeId] };
    const [book] = key.type === 'subscription' ? await holdBooks(tx, columns, now) : [];
    const latest = await lockResource(tx, key);
    if (latest === undefined) throw notFound(wordsOf(key.type));
    unmodified(latest.version);
    await deleteResource(tx, key);
    if (book !== undefined) await endTerm(tx, key, book.day);
    if (key.type === 'customer') await noteCustomer(tx, key, now);
    const all = { shard, storeId, eventId: latest.headId, stepId: latest.stepId };
    const done = await eraseSome(tx, all, { holders, ...batch });
    const rest = { ...done.rest, id: latest.headId };
    if (!isDone(rest)) await keepRest(tx, rest, now);
    return { ids: done.ids, left: rest };
  });
  holders.forget({ shard, ids });
  while (!isDone(left) && (await eraseRest(deps, left, batch)) !== undefined);
};
