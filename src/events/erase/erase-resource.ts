/** Erases one resource: its latest version, the payloads of its events, and the steps that were derived from it. */
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import { transaction } from '#db/pool.ts';
import { type ApiRequest, guarded, type Operation } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { labelOf, collectionOf } from '#catalog/catalog.ts';
import { resourceKeyOf } from '#catalog/resource-access.ts';
import { endTerm, lockBooks } from '../publish/subscription-sql.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { eraseRemaining, eraseBatch, isDone, type ChainDeps } from './erasure.ts';
import { saveRemaining } from './chain-sql.ts';
import { deleteResource, lockResource, insertErasedCustomer } from './erasure-sql.ts';

/** Events per transaction: publishes of the resource and snapshots of its store wait for the first of them. */
const EVENTS_AT_ONCE = 2_000;

/**
 * Erases a resource; afterwards none of its data can be read or sent. This is one transaction, unless the resource has more
 * than `EVENTS_AT_ONCE` events: then the resource and its newest events are erased first, and the others follow in batches,
 * which a purge continues if this process ends.
 *
 * The events themselves stay, with their ids. Copies of a customer and stored responses of receivers are left to purges. Throws
 * a 404 if the resource does not exist.
 */
export async function eraseResource(
  deps: ChainDeps,
  key: ResourceKey,
  { unmodified, now }: Pick<ApiRequest, 'unmodified' | 'now'>,
): Promise<void> {
  const { sql, caches } = deps;
  const { shard, storeId } = key;
  const batch = { limit: EVENTS_AT_ONCE, now };
  const { ids, remaining } = await transaction(sql, async (tx) => {
    // A share lock, taken before the lock of the resource as in a publish: only the closing of a day conflicts with it, and
    // that holds no lock while it waits.
    const columns = { shard: [shard], storeId: [storeId] };
    const [book] = key.type === 'subscription' ? await lockBooks(tx, columns, now) : [];
    const latest = await lockResource(tx, key);
    if (latest === undefined) throw notFound(labelOf(key.type));
    unmodified(latest.version);
    await deleteResource(tx, key, now);
    if (book !== undefined) await endTerm(tx, key, book.day);
    if (key.type === 'customer') await insertErasedCustomer(tx, key, now);
    const all = { shard, storeId, eventId: latest.headId, stepId: latest.stepId };
    const erased = await eraseBatch(tx, all, { caches, ...batch });
    const stored = { ...erased.remaining, id: latest.headId };
    if (!isDone(stored)) await saveRemaining(tx, stored, now);
    return { ids: erased.ids, remaining: stored };
  });
  caches.forget({ shard, ids });
  while (!isDone(remaining) && (await eraseRemaining(deps, remaining, batch)) !== undefined);
}

// The API operation that erases a resource; needs the scope `platform`.

export function createErasure(deps: ChainDeps & Pick<Runtime, 'config'>): Operation {
  return guarded({
    title: 'Erase',
    isConditional: true,
    summary:
      'Erases this resource, its versions and the payloads of its events, immediately and permanently; needs the scope platform',
    access: 'platform',
    handle: async (request) => {
      const key = resourceKeyOf(request);
      await eraseResource(deps, key, request);
      return { status: 204, next: `${deps.config.baseUrl}/stores/${key.storeId}/${collectionOf(key.type)}` };
    },
  });
}
