/** Erases the bodies of the events of a resource in batches, and the lifecycle steps that were derived from it. */
import { transaction, type Queryable, type Sql } from '#db/pool.ts';
import { purgesOf, type Purge } from '#db/purges.ts';
import {
  deleteErasedEvents,
  deleteRemaining,
  deleteResource,
  deleteSteps,
  emptyEvents,
  findErasedEvents,
  findEventChain,
  findSteps,
  insertErasedCustomer,
  insertErasedEvents,
  lockAnyRemaining,
  lockEvents,
  lockRemaining,
  lockResource,
  saveRemaining,
  type Remaining,
  type StoredRemaining,
  insertErasureEvent,
  listReaders,
} from './erasure-sql.ts';
import { searchCustomerCopies, type CopySearchDeps } from './customer-copies.ts';
import type { ResourceKey } from '#catalog/catalog-sql.ts';
import { type ApiRequest, guarded, type Operation } from '#http/operation.ts';
import { notFound } from '#core/problem.ts';
import { labelOf, collectionOf, ERASED, typeOfRelation } from '#catalog/catalog.ts';
import { resourceKeyOf } from '#catalog/resource-operations.ts';
import { addressOfEvent } from '../operations.ts';
import { endTerm, lockBooks } from '../revenue-sql.ts';
import type { Principal } from '#core/principal.ts';
import type { InternalEventDeps } from '../publish/internal-event.ts';
import { storedShape } from '#catalog/resource-document.ts';
import { dayOf, type StoreKey } from '#core/ids.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import { idAt, nextNonce } from '../publish/rows.ts';

type EventNames = { shard: number; ids: readonly number[] };

/**
 * In-memory copies of events in all processes: `announce` notifies them within the transaction, `forget` clears those of this
 * process after the commit.
 */
export type EventCaches = {
  announce: (tx: Queryable, events: EventNames) => Promise<void>;
  forget: (events: EventNames) => void;
};

export type ChainDeps = { sql: Sql; caches: EventCaches };

type ErasureDeps = ChainDeps &
  InternalEventDeps & {
    /** Writes the erasure of a customer to the changelog of the store. */
    recordErasure: (tx: Queryable, key: ResourceKey, by: Principal, now: Date) => Promise<void>;
  };

type Batch = { limit: number; now: Date };

/**
 * Deletes the resources of the steps. Returns the events by which some of them were sent again, at most `limit` per step; the
 * others are stored for a later batch.
 */
async function deleteStepResources(
  tx: Queryable,
  remaining: Remaining,
  steps: readonly number[],
  { limit, now }: Batch,
): Promise<number[]> {
  const { shard, storeId } = remaining;
  const ids: number[] = [];
  for (const headId of steps.length === 0 ? [] : await deleteSteps(tx, remaining, steps)) {
    const events = await findEventChain(tx, remaining, headId, limit + 1);
    ids.push(...events.slice(0, limit));
    const eventId = events[limit];
    if (eventId !== undefined) await saveRemaining(tx, { shard, storeId, eventId, stepId: null, id: eventId }, now);
  }
  return ids;
}

/**
 * Erases at most `limit` events and steps, and the events by which those steps were sent again. Returns the erased ids and what
 * remains.
 */
async function eraseBatch(
  tx: Queryable,
  remaining: Remaining,
  { caches, limit, now }: Batch & { caches: EventCaches },
): Promise<{ ids: number[]; remaining: Remaining }> {
  const { shard, eventId, stepId } = remaining;
  // Reads one more than the limit: the next batch begins there.
  const events = eventId === null ? [] : await findEventChain(tx, remaining, eventId, limit + 1);
  const available = limit - Math.min(events.length, limit);
  const steps = stepId === null || available === 0 ? [] : await findSteps(tx, remaining, stepId, available + 1);
  const deletedSteps = steps.slice(0, available);
  const resentEvents = await deleteStepResources(tx, remaining, deletedSteps, { limit, now });
  const ids = [...new Set([...events.slice(0, limit), ...deletedSteps, ...resentEvents])];
  await lockEvents(tx, remaining, ids);
  await emptyEvents(tx, remaining, ids);
  await insertErasedEvents(tx, remaining, ids, now);
  await caches.announce(tx, { shard, ids });
  const next = { eventId: events[limit] ?? null, stepId: available === 0 ? stepId : (steps[available] ?? null) };
  return { ids, remaining: { ...remaining, ...next } };
}

function isDone({ eventId, stepId }: Remaining): boolean {
  return eventId === null && stepId === null;
}

/**
 * Erases the next batch of one stored remainder, or of any that is not locked. Returns its size; undefined if nothing remains.
 */
async function eraseRemaining(
  { sql, caches }: ChainDeps,
  of: StoredRemaining | 'any',
  { limit, now }: Batch,
): Promise<number | undefined> {
  const batch = await transaction(sql, async (tx) => {
    const stored = of === 'any' ? await lockAnyRemaining(tx) : await lockRemaining(tx, of);
    if (stored === undefined) return undefined;
    const { ids, remaining } = await eraseBatch(tx, stored, { caches, limit, now });
    if (isDone(remaining)) await deleteRemaining(tx, stored);
    else await saveRemaining(tx, { ...remaining, id: stored.id }, now);
    return { shard: stored.shard, ids };
  });
  if (batch !== undefined) caches.forget(batch);
  return batch?.ids.length;
}

// Purges that complete erasures in the background.

/** Erases the stored responses to these events of one store. Returns the events that may still get responses. */
type ClearResponses = (sql: Sql, events: StoreKey & { ids: readonly number[] }) => Promise<readonly number[]>;

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

// Erases one resource: its latest version, the payloads of its events, and the steps that were derived from it.

/** Events per transaction: publishes of the resource and snapshots of its store wait for the first of them. */
const EVENTS_AT_ONCE = 2_000;

/**
 * Erases a resource; afterwards none of its data can be read or sent. This is one transaction, unless the resource has more
 * than `EVENTS_AT_ONCE` events: then the resource and its newest events are erased first, and the others follow in batches,
 * which a purge continues if this process ends.
 *
 * The events themselves stay, with their ids. Copies of a customer and stored responses of receivers are left to purges. `onErased` is
 * called in the transaction, to write an event of the erasure with this version; returns its id. Throws a 404 if the resource does not exist.
 */
export async function eraseResource(
  deps: ChainDeps,
  key: ResourceKey,
  { unmodified, now }: Pick<ApiRequest, 'unmodified' | 'now'>,
  onErased?: (tx: Queryable, last: { publishedId: string; version: number }) => Promise<number>,
): Promise<number | undefined> {
  const { sql, caches } = deps;
  const { shard, storeId } = key;
  const batch = { limit: EVENTS_AT_ONCE, now };
  const {
    ids,
    remaining,
    event: sentId,
  } = await transaction(sql, async (tx) => {
    // A share lock, taken before the lock of the resource as in a publish: only the closing of a day conflicts with it, and
    // that holds no lock while it waits.
    const [book] = key.type === 'subscription' ? await lockBooks(tx, [storeId], now) : [];
    const latest = await lockResource(tx, key);
    if (latest === undefined) throw notFound(labelOf(key.type));
    unmodified(latest.version);
    // The event of the erasure, if there is one, is the last version.
    const version = latest.version + (onErased === undefined ? 0 : 1);
    await deleteResource(tx, key, version, now);
    if (book !== undefined) await endTerm(tx, key, book.day);
    if (key.type === 'customer') await insertErasedCustomer(tx, key, now);
    const all = { shard, storeId, eventId: latest.headId, stepId: latest.stepId };
    const erased = await eraseBatch(tx, all, { caches, ...batch });
    const stored = { ...erased.remaining, id: latest.headId };
    if (!isDone(stored)) await saveRemaining(tx, stored, now);
    const event = await onErased?.(tx, { publishedId: latest.publishedId, version });
    return { ids: erased.ids, remaining: stored, event };
  });
  caches.forget({ shard, ids });
  while (!isDone(remaining) && (await eraseRemaining(deps, remaining, batch)) !== undefined);
  return sentId;
}

// The API operation that erases a resource; needs the scope `platform`.

export function createErasure(deps: ErasureDeps): Operation {
  return guarded({
    title: 'Erase',
    isConditional: true,
    summary:
      'Erases this resource, its versions and the payloads of its events, immediately and permanently; needs the scope platform',
    access: 'platform',
    handle: async (request) => {
      const key = resourceKeyOf(request);
      const { now, principal } = request;
      const { storeId, type } = key;
      const onErased: Parameters<typeof eraseResource>[3] = async (tx, last) => {
        const eventId = await sendErasure(tx, key, { ...last, now }, deps);
        await deps.recordErasure(tx, key, principal, now);
        return eventId;
      };
      const id = await eraseResource(deps, key, request, type === 'customer' ? onErased : undefined);
      return {
        status: 204,
        next: `${deps.baseUrl}/stores/${storeId}/${collectionOf(type)}`,
        ...(id !== undefined && { location: `${addressOfEvent({ id }, deps.baseUrl, storeId)}/statuses` }),
      };
    },
  });
}

// Sends `customer/erased` to the webhooks that may have got data of a customer, in the transaction that erases the customer.

/** Returns whether `zoom` selects a customer, at any depth. */
function embedsCustomer(zoom: Relations): boolean {
  return Object.entries(zoom).some(([rel, nested]) => typeOfRelation(rel) === 'customer' || embedsCustomer(nested));
}

/**
 * Writes the event with the next version of the customer, and a delivery for each active webhook for customers, whatever it subscribes
 * to, and for each whose `query` embeds customers. Which webhooks got an event of this customer is known for the time of retention
 * only, so webhooks that got none are included. `publishedId` is the id as JSON text. Returns the id of the event.
 */
async function sendErasure(
  tx: Queryable,
  key: ResourceKey,
  { publishedId, version, now }: { publishedId: string; version: number; now: Date },
  { allocateIds, baseUrl, announce }: InternalEventDeps,
): Promise<number> {
  const { shard, storeId, type, id: resourceId } = key;
  const day = dayOf(now);
  const id = idAt(await allocateIds(tx, { day, shards: [shard] }, 'inTransaction'), 0);
  const event = { id, action: ERASED, version, nonce: nextNonce(), baseUrl, body: `{"id":${publishedId}}` };
  const readers = (await listReaders(tx, key)).filter(
    (webhook) => webhook.type === type || embedsCustomer(storedShape(webhook.query ?? '', webhook.type).zoom),
  );
  const readerIds = readers.map((webhook) => webhook.id);
  const deliveries = await insertErasureEvent(tx, key, { ...event, day, now }, readerIds);
  const sent = { ...event, type, resourceId, dateCreated: now, traceContext: null };
  await announce(
    tx,
    deliveries.map((delivery) => Object.assign({ shard, storeId, dueAt: now, event: sent }, delivery)),
  );
  return id;
}
