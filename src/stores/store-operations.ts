/** API operations on stores: {base_url}/stores. */
import { isDeepStrictEqual } from 'node:util';
import type { Changelog } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Sql, type Tx } from '#db/pool.ts';
import type { Charts } from '#hypermedia/view.ts';
import type { Document } from '#hypermedia/document.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { changeOrMake, keyOf, keyedIds, replaceKey } from '#http/external-keys.ts';
import { creating } from '#http/idempotency.ts';
import { listing } from '#http/list-operation.ts';
import { accepting, guarded, type ApiRequest } from '#http/operation.ts';
import { shardOf, type StoreKey } from '#core/ids.ts';
import { invalid, notFound, Problem } from '#core/problem.ts';
import { platformClient, type Principal, requireOwner, requirePlatform, storeOfAddress } from '#core/principal.ts';
import { storeOf, eraseStore, type Eraser, type LockAppsOf } from './store.ts';
import {
  addressOfStore,
  storeDocument,
  type PublishedCollection,
  STORE_PROPERTIES,
  detailsOf,
  readTimeZone,
  storeFaults,
  storeSchemas,
  type StoreDetails,
  type StorePart,
} from './store-document.ts';
import { countStores, listStores, lockStore, updateStore, type Reach, type StoreRow } from './stores-sql.ts';
import { byOf, recordStore, createStoreWithEntry } from './audited-changes.ts';

type StoreDeps = {
  changelog: Changelog;
  /** The collections of published resources. */
  collections: readonly PublishedCollection[];
  /** Returns the charts on the page of a store. */
  chartsOf: (store: StoreKey, now: Date) => Promise<Charts>;
  hasSecondFactor: (sql: Queryable, userId: number) => Promise<boolean>;
  /** Called within the transaction that changes the domain. */
  onDomainChanged: (tx: Tx, store: StoreKey) => Promise<void>;
  /** Called within the transaction that changes the time zone, after the change. */
  rescheduleSnapshot: (tx: Tx, store: StoreKey) => Promise<void>;
  erasure: { erasers: readonly Eraser[]; lockAppsOf: LockAppsOf };
};

/** Placeholder for members that the schema has rejected, so that they get no second fault. */
const PLACEHOLDER: StoreDetails = {
  name: 'Store',
  domain: 'store.example.com',
  email: 'store@example.com',
  timeZone: 'UTC',
  subscriptionEvents: 'derived',
  secondFactor: 'optional',
  externalId: null,
};

/** The platform decides who publishes subscription events. Sending the current value is allowed to all. */
const PLATFORM_DECIDES = {
  message: 'subscription_events can only be changed with the scope platform: omit it or send its current value',
  field: 'subscription_events',
};

/** Only the platform has keys. Owners and apps may send the null that they see. */
const PLATFORM_NAMES = {
  message: 'external_id can only be changed with the scope platform: omit it or send null',
  field: 'external_id',
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

/** A POST has no `unmodified`. */
type Change = Pick<ApiRequest<StorePart>, 'principal' | 'body' | 'now'> & Partial<Pick<ApiRequest, 'unmodified'>>;

/** Changes a store whose row it locks, so that no concurrent change is lost. Returns undefined if the store does not exist. */
async function changeIn(
  tx: Tx,
  { changelog, onDomainChanged, rescheduleSnapshot, hasSecondFactor }: StoreDeps,
  store: StoreKey,
  request: Change,
): Promise<StoreRow | undefined> {
  const { shard, storeId } = store;
  const { principal, now } = request;
  const reader = platformClient(principal);
  const stored = await lockStore(tx, store, reader);
  if (stored === undefined) return undefined;
  request.unmodified?.(stored.revision);
  const details = detailsOf(stored, request.body);
  if (details.subscriptionEvents !== stored.subscriptionEvents) requirePlatform(principal, PLATFORM_DECIDES);
  if (details.externalId !== stored.externalId) requirePlatform(principal, PLATFORM_NAMES);
  const { secondFactor: rule } = details;
  if (rule !== stored.secondFactor) await requireFactorDecision(tx, { hasSecondFactor }, { principal, storeId, rule });
  const faults = storeFaults(details);
  if (faults.length > 0) throw invalid(...faults);
  const timeZone = readTimeZone(details.timeZone) ?? details.timeZone;
  const domain = details.domain.toLowerCase();
  const columns = { ...details, domain, timeZone };
  if (isDeepStrictEqual(columns, detailsOf(stored, {}))) return stored;
  if (reader !== null && details.externalId !== stored.externalId)
    await replaceKey(tx, { client: reader, resource: 'store', id: storeId, key: details.externalId });
  const row = (await updateStore(tx, { ...columns, shard, id: storeId, reader, now })) ?? stored;
  if (timeZone !== stored.timeZone) await rescheduleSnapshot(tx, store);
  await recordStore(tx, storeId, { before: stored, after: row }, byOf(changelog, request));
  if (row.domain !== stored.domain) await onDomainChanged(tx, store);
  return row;
}

/** Changes the store of a request in one transaction. Throws a 404 if it does not exist. */
async function change(sql: Sql, deps: StoreDeps, request: ApiRequest<StorePart>): Promise<StoreRow> {
  const store = storeOfAddress(request);
  const changed = await transaction(sql, (tx) => changeIn(tx, deps, store, request));
  if (changed === undefined) throw notFound('store');
  return changed;
}

/** Creates a store, or changes the one with the `external_id` of the body. */
async function createOrChange(
  tx: Tx,
  deps: StoreDeps,
  request: ApiRequest<StorePart>,
  details: StoreDetails,
): Promise<{ row: StoreRow; isKnown: boolean }> {
  const { principal, now } = request;
  const { external_id: _, ...body } = request.body;
  return changeOrMake(tx, keyOf(principal, 'store', details.externalId), {
    change: async (storeId) => {
      const row = await changeIn(tx, deps, { shard: shardOf(storeId), storeId }, { principal, now, body });
      return row && { row };
    },
    make: async () => {
      const made = await createStoreWithEntry(tx, details, byOf(deps.changelog, request));
      return { row: { ...made, externalId: details.externalId } };
    },
  });
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
        // With a filter by `external_id`, the platform is shown the store that has it.
        const ids = await keyedIds(sql, { principal, resource: 'store', filters: request.filters });
        const reach = ids === undefined ? reachOf(principal) : { ids, shards: ids.map(shardOf) };
        const shown = { reach, reader: platformClient(principal) };
        const [stores, total] = await Promise.all([listStores(sql, shown, request), countStores(sql, shown, request)]);
        return { path: `${baseUrl}/stores`, items: stores.map((store) => describe(store, principal)), total };
      },
    }),
    create: creating({
      title: 'Create a store',
      summary: 'Creates a store without members, or changes the one with the external_id; needs the scope platform',
      access: 'platform',
      statuses: [200, 201],
      input: storeSchemas.whole,
      review: async ({ body }) => storeFaults(detailsOf(PLACEHOLDER, body)),
      prepare: async ({ body }) => detailsOf(PLACEHOLDER, body),
      make: async (tx, request, details) => {
        const { row, isKnown } = await createOrChange(tx, deps, request, details);
        return {
          document: describe(row, request.principal),
          location: addressOfStore(row.id, baseUrl),
          ...(isKnown && { isKnown }),
        };
      },
    }),
    read: guarded({
      summary: 'One store',
      scopes: 'any',
      handle: async (request) => ({
        status: 200,
        document: describe(await storeOf(sql.reads, request), request.principal),
        beside: async () => ({ charts: await deps.chartsOf(storeOfAddress(request), request.now) }),
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
        document: describe(await change(sql, deps, request), request.principal),
      }),
    }),
    remove: guarded({
      title: 'Erase the store',
      isConditional: true,
      isSensitive: true,
      summary: 'Erases the store and all its data, immediately and permanently; needs the scope platform',
      access: 'platform',
      handle: async (request) => {
        await eraseStore(sql, { ...storeOfAddress(request), ...deps.erasure }, request);
        return { status: 204, next: `${baseUrl}/stores` };
      },
    }),
  };
}
