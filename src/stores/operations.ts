/** Stores over the API: {base_url}/stores. */
import { actorOf, type Changelog } from '#changelog/changelog.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import type { Charts } from '#hypermedia/chart.ts';
import { creating } from '#http/creating.ts';
import { listing } from '#http/listing.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { shardOf } from '#core/ids.ts';
import { invalid, notFound } from '#core/problem.ts';
import type { Principal } from '#core/principal.ts';
import { requirePlatform, storeOfAddress } from '#core/principal.ts';
import { storeOf } from './access.ts';
import { addressOfStore, STORE_PROPERTIES, storeDocument, type PublishedCollection } from './document.ts';
import { eraseStore, type EraseTheirs } from './erase.ts';
import { countStores, listStores, lockStore, updateStore, type Reach, type StoreRow } from './stores-sql.ts';
import { openStore, recordStore } from './audit.ts';
import { readTimeZone, storeFaults, type StoreDetails } from './rules.ts';
import { detailsOf, partOfStore, wholeStore, type StorePart } from './schema.ts';

export type StoreDeps = {
  sql: Sql;
  changelog: Changelog;
  baseUrl: string;
  /** The collections that the platform publishes into. */
  collections: readonly PublishedCollection[];
  /** What is drawn on the page of a store. */
  chartsOf: (store: { shard: number; storeId: number }, now: Date) => Promise<Charts>;
  /** Called within the transaction that sets another domain; what it answers is called after the commit. */
  onMoved: (tx: Tx, store: { shard: number; storeId: number }) => Promise<() => Promise<void>>;
  /** Called within the transaction that sets another time zone, which is there to be read. */
  followZone: (tx: Tx, store: { shard: number; storeId: number }) => Promise<void>;
  eraseTheirs: readonly EraseTheirs[];
};

/** Stands in for what the schema has refused, which has its fault already. */
const SOUND: StoreDetails = {
  name: 'Store',
  domain: 'store.example.com',
  email: 'store@example.com',
  timeZone: 'UTC',
  subscriptionEvents: 'derived',
};

/** It decides who publishes, so it decides what it publishes; whoever sends back what they read changes nothing. */
const PLATFORM_DECIDES = {
  message: 'subscription_events can be changed with the scope platform alone: leave it out, or send what was read',
  field: 'subscription_events',
};

const reachOf = ({ stores }: Principal): Reach =>
  stores === 'all' ? null : { ids: stores, shards: [...new Set(stores.map(shardOf))] };

/** The change as one transaction over the locked row, so that concurrent changes follow each other and none is lost. */
const change = async (
  { sql, changelog, onMoved, followZone }: StoreDeps,
  request: ApiRequest<StorePart>,
): Promise<StoreRow> => {
  const { shard, storeId } = storeOfAddress(request);
  const { after, moved } = await transaction(sql, async (tx) => {
    const stored = await lockStore(tx, shard, storeId);
    if (stored === undefined) throw notFound('store');
    request.unmodified(stored.revision);
    const details = detailsOf(stored, request.body);
    if (details.subscriptionEvents !== stored.subscriptionEvents) requirePlatform(request.principal, PLATFORM_DECIDES);
    const faults = storeFaults(details);
    if (faults.length > 0) throw invalid(...faults);
    const timeZone = readTimeZone(details.timeZone) ?? details.timeZone;
    const domain = details.domain.toLowerCase();
    const changed = await updateStore(tx, { ...details, domain, timeZone, shard, id: storeId, now: request.now });
    if (timeZone !== stored.timeZone) await followZone(tx, { shard, storeId });
    const turn = { before: stored, after: changed ?? stored };
    await recordStore(tx, storeId, turn, { changelog, actor: actorOf(request.principal), now: request.now });
    const hasMoved = turn.after.domain !== stored.domain;
    return { after: turn.after, moved: hasMoved ? await onMoved(tx, { shard, storeId }) : undefined };
  });
  await moved?.();
  return after;
};

export const createStoreOperations = (
  deps: StoreDeps,
): Record<'list' | 'create' | 'read' | 'patch' | 'remove', Operation> => {
  const { sql, baseUrl } = deps;
  return {
    list: listing({
      summary: 'The stores this token reaches, a page at a time',
      rel: 'stores',
      title: 'Your stores',
      properties: STORE_PROPERTIES,
      handle: async ({ principal, listing: wanted }) => {
        const reach = reachOf(principal);
        const [stores, total] = await Promise.all([listStores(sql, reach, wanted), countStores(sql, reach, wanted)]);
        return { path: `${baseUrl}/stores`, items: stores.map((store) => storeDocument(store, deps)), total };
      },
    }),
    create: creating({
      title: 'Make a store',
      summary: 'Makes a store, which has no members yet; needs the scope platform',
      access: 'platform',
      input: wholeStore,
      review: async ({ body }) => storeFaults(detailsOf(SOUND, body)),
      prepare: async ({ body }) => detailsOf(SOUND, body),
      make: async (tx, { principal, now }, details) => {
        const store = await openStore(tx, details, { changelog: deps.changelog, actor: actorOf(principal), now });
        return { document: storeDocument(store, deps), location: addressOfStore(store.id, baseUrl) };
      },
    }),
    read: guarded({
      summary: 'One store',
      handle: async (request) => ({
        status: 200,
        document: storeDocument(await storeOf(sql, request), deps),
        charts: async () => deps.chartsOf(storeOfAddress(request), request.now),
      }),
    }),
    patch: accepting({
      title: 'Change the store',
      isConditional: true,
      summary: 'Changes the properties that are sent and leaves the others as they are',
      input: partOfStore,
      review: async (request) => storeFaults(detailsOf(await storeOf(sql, request), request.body)),
      handle: async (request) => ({ status: 200, document: storeDocument(await change(deps, request), deps) }),
    }),
    remove: guarded({
      title: 'Erase the store',
      isConditional: true,
      summary: 'Erases the store with everything in it, at once and for good; needs the scope platform',
      access: 'platform',
      handle: async (request) => {
        await eraseStore(sql, { ...storeOfAddress(request), eraseTheirs: deps.eraseTheirs }, request);
        return { status: 204, next: `${baseUrl}/stores` };
      },
    }),
  };
};
