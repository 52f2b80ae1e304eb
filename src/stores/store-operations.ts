/** API operations on stores: {base_url}/stores. */
import { isDeepStrictEqual } from 'node:util';
import { actorOf, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Tx } from '#db/pool.ts';
import type { Charts } from '#hypermedia/view.ts';
import type { Document } from '#hypermedia/document.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import { accepting, guarded, type ApiRequest } from '#http/operation.ts';
import { shardOf } from '#core/ids.ts';
import { invalid, notFound, Problem } from '#core/problem.ts';
import { type Principal, requireOwner, requirePlatform, storeOfAddress } from '#core/principal.ts';
import { storeOf } from './store.ts';
import { addressOfStore, storeDocument, type PublishedCollection } from './store-document.ts';
import { eraseStore, type Eraser } from './store-erasure.ts';
import { countStores, listStores, lockStore, updateStore, type Reach, type StoreRow } from './stores-sql.ts';
import { recordStore, createStoreWithEntry } from './audited-changes.ts';
import {
  STORE_PROPERTIES,
  detailsOf,
  readTimeZone,
  storeFaults,
  storeSchemas,
  type StoreDetails,
  type StorePart,
} from './store-fields.ts';

type StoreDeps = {
  changelog: Changelog;
  /** The collections of published resources. */
  collections: readonly PublishedCollection[];
  /** Returns the charts on the page of a store. */
  chartsOf: (store: { shard: number; storeId: number }, now: Date) => Promise<Charts>;
  /** Returns whether a user has a second factor. */
  hasSecondFactor: (sql: Queryable, userId: number) => Promise<boolean>;
  /** Called within the transaction that changes the domain; the function that it returns is called after the commit. */
  onDomainChanged: (tx: Tx, store: { shard: number; storeId: number }) => Promise<() => Promise<void>>;
  /** Called within the transaction that changes the time zone, after the change. */
  rescheduleSnapshot: (tx: Tx, store: { shard: number; storeId: number }) => Promise<void>;
  erasers: readonly Eraser[];
};

/** Placeholder for members that the schema has rejected, so that they get no second fault. */
const PLACEHOLDER: StoreDetails = {
  name: 'Store',
  domain: 'store.example.com',
  email: 'store@example.com',
  timeZone: 'UTC',
  subscriptionEvents: 'derived',
  secondFactor: 'optional',
};

/** The platform decides who publishes subscription events. Sending the current value is allowed to all. */
const PLATFORM_DECIDES = {
  message: 'subscription_events can only be changed with the scope platform: omit it or send its current value',
  field: 'subscription_events',
};

/** Owners decide how members sign in. Sending the current value is allowed to all. */
const OWNERS_DECIDE = {
  message: 'second_factor can only be changed by an owner of the store: omit it or send its current value',
  field: 'second_factor',
};

const OWN_FACTOR_FIRST = {
  code: 'second_factor_required',
  message: 'Set up a second factor for your own account first: without one you could not open the store any more',
  field: 'second_factor',
};

/** Throws unless the caller owns the store and, to require a second factor of its members, has one. */
async function requireFactorDecision(
  tx: Tx,
  { hasSecondFactor }: Pick<StoreDeps, 'hasSecondFactor'>,
  { principal, storeId, rule }: { principal: Principal; storeId: number; rule: StoreDetails['secondFactor'] },
): Promise<void> {
  requireOwner(principal, storeId, OWNERS_DECIDE);
  const { userId } = principal;
  if (rule === 'required' && userId !== null && !(await hasSecondFactor(tx, userId)))
    throw new Problem(409, OWN_FACTOR_FIRST);
}

const reachOf = ({ stores }: Principal): Reach =>
  stores === 'all' ? null : { ids: stores, shards: [...new Set(stores.map(shardOf))] };

/** Changes a store in one transaction with a locked row, so that no concurrent change is lost. */
async function change(
  { sql }: Pick<Runtime, 'sql'>,
  { changelog, onDomainChanged, rescheduleSnapshot, hasSecondFactor }: StoreDeps,
  request: ApiRequest<StorePart>,
): Promise<StoreRow> {
  const { shard, storeId } = storeOfAddress(request);
  const { after, afterCommit } = await transaction(sql, async (tx) => {
    const stored = await lockStore(tx, shard, storeId);
    if (stored === undefined) throw notFound('store');
    request.unmodified(stored.revision);
    const details = detailsOf(stored, request.body);
    if (details.subscriptionEvents !== stored.subscriptionEvents) requirePlatform(request.principal, PLATFORM_DECIDES);
    const { secondFactor: rule } = details;
    if (rule !== stored.secondFactor)
      await requireFactorDecision(tx, { hasSecondFactor }, { ...request, storeId, rule });
    const faults = storeFaults(details);
    if (faults.length > 0) throw invalid(...faults);
    const timeZone = readTimeZone(details.timeZone) ?? details.timeZone;
    const domain = details.domain.toLowerCase();
    const columns = { ...details, domain, timeZone };
    if (isDeepStrictEqual(columns, detailsOf(stored, {}))) return { after: stored, afterCommit: undefined };
    const changed = await updateStore(tx, { ...columns, shard, id: storeId, now: request.now });
    if (timeZone !== stored.timeZone) await rescheduleSnapshot(tx, { shard, storeId });
    const states = { before: stored, after: changed ?? stored };
    await recordStore(tx, storeId, states, { changelog, actor: actorOf(request.principal), now: request.now });
    const hasNewDomain = states.after.domain !== stored.domain;
    return {
      after: states.after,
      afterCommit: hasNewDomain ? await onDomainChanged(tx, { shard, storeId }) : undefined,
    };
  });
  await afterCommit?.();
  return after;
}

export function createStoreOperations({ sql, config: { baseUrl } }: Pick<Runtime, 'sql' | 'config'>, deps: StoreDeps) {
  const describe = (store: StoreRow, { scope }: Principal): Document =>
    storeDocument(store, { baseUrl, collections: deps.collections, isForPlatform: scope === 'platform' });
  return {
    list: listing({
      summary: 'The stores that this token has access to, in pages',
      scopes: 'any',
      rel: 'stores',
      title: 'Your stores',
      properties: STORE_PROPERTIES,
      handle: async ({ principal, listing: request }) => {
        const reach = reachOf(principal);
        const [stores, total] = await Promise.all([listStores(sql, reach, request), countStores(sql, reach, request)]);
        return { path: `${baseUrl}/stores`, items: stores.map((store) => describe(store, principal)), total };
      },
    }),
    create: creating({
      title: 'Create a store',
      summary: 'Creates a store without members; needs the scope platform',
      access: 'platform',
      input: storeSchemas.whole,
      review: async ({ body }) => storeFaults(detailsOf(PLACEHOLDER, body)),
      prepare: async ({ body }) => detailsOf(PLACEHOLDER, body),
      make: async (tx, { principal, now }, details) => {
        const store = await createStoreWithEntry(tx, details, {
          changelog: deps.changelog,
          actor: actorOf(principal),
          now,
        });
        return { document: describe(store, principal), location: addressOfStore(store.id, baseUrl) };
      },
    }),
    read: guarded({
      summary: 'One store',
      scopes: 'any',
      handle: async (request) => ({
        status: 200,
        document: describe(await storeOf(sql.reads, request), request.principal),
        charts: async () => deps.chartsOf(storeOfAddress(request), request.now),
      }),
    }),
    patch: accepting({
      title: 'Change the store',
      isConditional: true,
      summary: 'Changes the properties that are sent and keeps the others',
      input: storeSchemas.part,
      review: async (request) => storeFaults(detailsOf(await storeOf(sql.reads, request), request.body)),
      handle: async (request) => ({
        status: 200,
        document: describe(await change({ sql }, deps, request), request.principal),
      }),
    }),
    remove: guarded({
      title: 'Erase the store',
      isConditional: true,
      isSensitive: true,
      summary: 'Erases the store and all its data, immediately and permanently; needs the scope platform',
      access: 'platform',
      handle: async (request) => {
        await eraseStore(sql, { ...storeOfAddress(request), erasers: deps.erasers }, request);
        return { status: 204, next: `${baseUrl}/stores` };
      },
    }),
  };
}
