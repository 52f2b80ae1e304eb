/** The end of one resource: its latest version, and what all of its events carried. */
import type { ResourceKey } from '#commerce/queries.ts';
import { transaction, type Queryable, type Sql } from '#database/pool.ts';
import type { ApiRequest } from '#http/operation.ts';
import { notFound } from '#kernel/problem.ts';
import { wordsOf } from '#commerce/catalogue.ts';
import { endTerm, holdBooks } from '../subscriptions/queries.ts';
import { chainOf, deleteResource, emptyEvents, lockResource, noteCustomer, noteEvents } from './queries.ts';

type EventNames = { shard: number; ids: readonly number[] };

/** Those who hold copies of events in memory: told within the transaction, and once more after it where it is quicker. */
export type Holders = {
  announce: (tx: Queryable, events: EventNames) => Promise<void>;
  forget: (events: EventNames) => void;
};

/**
 * One transaction: it commits and nothing of the resource can be read or sent any more, or nothing happened. The events
 * themselves stay, with their ids. Copies of a customer are left for housekeeping, and so is what receivers answered.
 * Throws a 404 where there is no such resource. One of 10,000 events takes 0.5 s, and its publishers wait so long.
 */
export const eraseResource = async (
  { sql, holders }: { sql: Sql; holders: Holders },
  key: ResourceKey,
  { unmodified, now }: Pick<ApiRequest, 'unmodified' | 'now'>,
): Promise<void> => {
  const { shard } = key;
  const ids = await transaction(sql, async (tx) => {
    // The book before the resource, as a publish takes them.
    const columns = { shard: [shard], storeId: [key.storeId] };
    const [book] = key.type === 'subscription' ? await holdBooks(tx, columns, now) : [];
    const latest = await lockResource(tx, key);
    if (latest === undefined) throw notFound(wordsOf(key.type));
    unmodified(latest.version);
    const chain = await chainOf(tx, shard, latest.headId);
    await emptyEvents(tx, shard, chain);
    await noteEvents(tx, key, chain, now);
    await deleteResource(tx, key);
    if (book !== undefined) await endTerm(tx, key, book.day);
    if (key.type === 'customer') await noteCustomer(tx, key, now);
    await holders.announce(tx, { shard, ids: chain });
    return chain;
  });
  holders.forget({ shard, ids });
};
