/** API operations that read published resources: a type, one resource, and the resources embedded in it. */
import { listing, pageTooLarge } from '#http/list-operation.ts';
import { guarded, type AddressedRequest, type ApiRequest, type Operation, type Beside } from '#http/operation.ts';
import { formatDate } from '#hypermedia/date.ts';
import { date as dateProperty, type Document, type Link } from '#hypermedia/document.ts';
import type { Relations } from '#hypermedia/list-query.ts';
import { parseExact } from '#core/exact-number.ts';
import { notFound, invalid, Problem } from '#core/problem.ts';
import type { Runtime } from '#runtime/runtime.ts';
import type { Search } from '#db/search.ts';
import { conditionsOf, type Listing } from '#core/listing.ts';
import {
  canBeDeleted,
  isMany,
  relationsOf,
  titleOf,
  typeOfCollection,
  labelOf,
  zoomableOf,
  collectionOf,
  type ResourceType,
  isResourceId,
  OPERATOR_EVENT,
  scopedTypes,
  readScopeOf,
} from './catalog.ts';
import {
  addressOf,
  embeddedDocument,
  nameOf,
  type JsonObject,
  resourceDocument,
  currencyOf,
  BARE_LINKS,
  FULL_SHAPE,
  shapeOf,
} from './resource-document.ts';
import {
  listEmbedded,
  type ListedEmbedded,
  type ListedResource,
  type ResourceKey,
  findResource,
  findUpTo,
  listResources,
  findDeletion,
  timeZonesOf,
} from './catalog-sql.ts';
import { internalProperties, type AppChange } from './internal-types.ts';
import { PROPERTIES } from './payload-filter.ts';
import type { Charts, Curve } from '#hypermedia/view.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import { parseId, shardOf } from '#core/ids.ts';
import { callingApp, reachesStore, storeOfAddress, type Permission, type Principal } from '#core/principal.ts';
import type { Params } from '#http/route.ts';

// The collection and the resource in the address of a request.

/** Returns the limited scopes that suffice to read resources; at an address only that of its type, which includes what is embedded. */
function resourceScopes() {
  return {
    scopes: ['store_read', ...scopedTypes().map(readScopeOf)],
    scopesAt: ({ collection = '' }: Params): readonly Permission[] => {
      const type = typeOfCollection(collection);
      return type === undefined ? ['store_read'] : ['store_read', readScopeOf(type)];
    },
  } as const;
}

/** Returns the collection of the address. Throws a 404 if it does not exist or the caller has no access to it. */
function collectionKeyOf({ params, principal }: AddressedRequest): Omit<ResourceKey, 'id'> {
  const storeId = parseId(params['store_id'] ?? '');
  const type = typeOfCollection(params['collection'] ?? '');
  if (storeId === undefined || type === undefined || !reachesStore(principal, storeId)) throw notFound('collection');
  if (type === OPERATOR_EVENT && callingApp(principal) !== null) throw notFound('collection');
  return { shard: shardOf(storeId), storeId, type };
}

/** Returns the time zone of the store of the address; undefined if it does not exist. Throws a 404 without access to it. */
export async function zoneOf(sql: Pick<Sql, 'reads'>, request: AddressedRequest): Promise<string | undefined> {
  const { storeId } = storeOfAddress(request);
  return (await timeZonesOf(sql.reads, [storeId])).get(storeId);
}

/** Returns the client_id of the only app whose changes of access the caller reads: an app reads its own. Null if it reads all. */
export function visibleAppOf(principal: Principal): string | null {
  return callingApp(principal)?.clientId ?? null;
}

/** Returns whether the caller may see a published resource and its events. `body` is empty if it was erased. */
export function isVisible(principal: Principal, { type, body }: { type: ResourceType; body: string }): boolean {
  if (type === OPERATOR_EVENT) return callingApp(principal) === null;
  if (type !== 'app') return true;
  const clientId = visibleAppOf(principal);
  return clientId === null || (body !== '' && (JSON.parse(body) as AppChange).client_id === clientId);
}

export function resourceNotFound(type: ResourceType) {
  return notFound(labelOf(type));
}

/** Returns the 410 for a resource that the platform has deleted, or else the 404 for one that does not exist. */
export async function resourceMissing(sql: Queryable, key: ResourceKey): Promise<Problem> {
  const deletion = canBeDeleted(key.type) ? await findDeletion(sql, key) : undefined;
  if (deletion === undefined) return resourceNotFound(key.type);
  const date = formatDate(deletion.dateDeleted, deletion.timeZone);
  return new Problem(410, { code: 'deleted', message: `This ${labelOf(key.type)} was deleted at ${date}` });
}

/** Returns the key of the resource of the address, which may not exist. Throws a 404 if the id is invalid. */
export function resourceKeyOf(request: AddressedRequest): ResourceKey {
  const collection = collectionKeyOf(request);
  const id = request.params['id'] ?? '';
  if (!isResourceId(id)) throw resourceNotFound(collection.type);
  return { ...collection, id };
}

// The API operation that lists the resources of one type, in their latest versions.

type Deps = Pick<Runtime, 'sql' | 'config'> & { search: Search };

/** Returns the listing of the request; of an app's listing of changes of access only its own. */
function visibleListing(
  { listing: query, principal }: Pick<ApiRequest, 'principal'> & { listing: Listing },
  type: ResourceType,
): Listing {
  const clientId = type === 'app' ? visibleAppOf(principal) : null;
  if (clientId === null) return query;
  return { ...query, filters: [...query.filters, { property: 'client_id', operator: 'is', value: clientId }] };
}

const isDeletedFlag = ({ property }: { property: string }): boolean => property === 'deleted';

/**
 * Returns the listing without the filter `deleted`, and whether it asks for the deleted resources, which not every type has. Throws a 400
 * for a value that is no flag.
 */
function withoutDeleted(asked: Listing, type: ResourceType): { query: Listing; onlyDeleted?: true } {
  if (!canBeDeleted(type)) return { query: asked };
  const [flags, others] = [asked.filters.filter(isDeletedFlag), asked.filters.filter((one) => !isDeletedFlag(one))];
  const texts = flags.map(({ operator, value }) => (operator === 'is' ? String(value) : ''));
  if (texts.length > 1 || texts.some((text) => !['0', '1', 'false', 'true'].includes(text)))
    throw invalid({ code: 'invalid_value', message: 'deleted must be 1 or 0', field: 'deleted' });
  const isDeleted = texts[0] === '1' || texts[0] === 'true';
  const dates = others.filter(({ property }) => isDeleted && property === 'date_deleted').flatMap(conditionsOf);
  if (!dates.every(({ value }) => value instanceof Date))
    throw invalid({ code: 'invalid_value', message: 'date_deleted must be a date', field: 'date_deleted' });
  return { query: { ...asked, filters: others }, ...(isDeleted && { onlyDeleted: true }) };
}

/** Returns the Document of a listed resource: of a deleted one its id and links, and when it was deleted. */
function listedDocument(row: ListedResource, key: Omit<ResourceKey, 'id'>, zoom: Relations): Document {
  const isDeleted = row.dateDeleted !== null;
  const document = resourceDocument({ ...row, ...key }, { ...FULL_SHAPE, zoom, links: isDeleted ? BARE_LINKS : null });
  if (row.dateDeleted === null) return document;
  const deleted = dateProperty('date_deleted', formatDate(row.dateDeleted, row.timeZone));
  return { ...document, properties: [...document.properties, deleted] };
}

function createResourceList({ sql, search, config: { baseUrl } }: Deps): Operation {
  return listing({
    summary:
      'The resources of one type, in their latest versions, in pages; filters accept any property, and deleted=1 lists the deleted ones',
    ...resourceScopes(),
    title: 'Resources of one type',
    rel: 'resources',
    properties: PROPERTIES,
    // The other dates are in the JSON text.
    narrowedBy: 'date_modified',
    isOpen: true,
    zone: (request) => zoneOf(sql, request),
    closedAt: ({ collection = '' }) => {
      const type = typeOfCollection(collection);
      return type && internalProperties(type);
    },
    relations: ({ params }) => {
      const type = typeOfCollection(params['collection'] ?? '');
      return type === undefined ? {} : zoomableOf(type);
    },
    handle: async (request) => {
      const key = collectionKeyOf(request);
      const { storeId, type } = key;
      const { query, onlyDeleted } = withoutDeleted(visibleListing(request, type), type);
      const found = await search(storeId, query, (tx) => listResources(tx, { ...key, onlyDeleted }, query));
      if (found === undefined) throw notFound('store');
      if ('fitting' in found) throw pageTooLarge(found.fitting);
      const rel = collectionOf(type);
      const store = `${baseUrl}/stores/${storeId}`;
      return {
        rel,
        title: `The ${labelOf(rel)} of this store`,
        path: `${store}/${rel}`,
        items: found.rows.map((row) => listedDocument(row, key, request.zoom)),
        total: found.total,
        of: { storeId, webhookId: null },
        links: [{ rel: 'store', href: store, title: 'The store', crumb: 'Store' }],
        ...(type === 'subscription_mrr_snapshot' && {
          beside: async () => ({ charts: revenueCharts(found.rows.map(({ body }) => body)) }),
        }),
      };
    },
  });
}

/** Returns the resource and the relation of the address. Throws a 404 if its type has no such relation. */
function keyOf(request: AddressedRequest): ResourceKey & { rel: string } {
  const key = resourceKeyOf(request);
  const rel = request.params['relation'] ?? '';
  if (!Object.hasOwn(relationsOf(key.type), rel)) throw notFound('relation');
  return { ...key, rel };
}

/** Returns the relations that can be embedded in the targets of this relation. */
function relationsBelow({ params }: Pick<AddressedRequest, 'params'>): Relations {
  const type = typeOfCollection(params['collection'] ?? '');
  const relations = type === undefined ? {} : zoomableOf(type);
  const rel = params['relation'] ?? '';
  return (Object.hasOwn(relations, rel) ? relations[rel] : undefined) ?? {};
}

const documentsOf = ({ rows, currency }: ListedEmbedded, rel: string, zoom: Relations): Document[] =>
  rows.map((row) => {
    const resource = parseExact(row) as JsonObject;
    return embeddedDocument(rel, resource, { currency: currencyOf({ currency_code: currency }), zoom });
  });

const resourceLink = (key: ResourceKey, baseUrl: string): Link => ({
  rel: key.type,
  href: addressOf({ ...key, baseUrl }),
  title: nameOf(key),
});

const titleFor = ({ type, id, rel }: ResourceKey & { rel: string }): string =>
  `${titleOf(rel)} of ${labelOf(type)} ${id}`;

const createMany = ({ sql, search, config: { baseUrl, naming } }: Deps): Operation =>
  listing({
    summary:
      'The targets of one relation of this resource, in pages, filtered by any property; a relation with a single target accepts only fields and zoom',
    ...resourceScopes(),
    title: 'Embedded resources',
    rel: 'embedded',
    properties: {},
    isOpen: true,
    relations: relationsBelow,
    handle: async (request) => {
      const key = keyOf(request);
      const found = await search(key.storeId, request.listing, (tx) => listEmbedded(tx, key, request.listing));
      if (found === undefined) throw await resourceMissing(sql, key);
      const back = resourceLink(key, found.baseUrl);
      return {
        rel: key.rel,
        title: titleFor(key),
        // The page uses the current base URL, its items the one of their version.
        path: `${resourceLink(key, baseUrl).href}/${key.rel}`,
        items: documentsOf(found, key.rel, request.zoom),
        total: found.total,
        links: [back],
        naming: { baseUrl: found.baseUrl, relationPrefix: naming.relationPrefix },
      };
    },
  });

const FIRST = { offset: 0, limit: 1, order: [], filters: [] };

/**
 * Creates the operation that reads a relation with one target. If nothing is embedded it returns a document without properties
 * instead of a 404: representations that were delivered earlier link to it, also for a version that embeds nothing.
 */
const createOne = ({ sql, config: { naming } }: Deps): Operation =>
  guarded({
    summary: 'The single target of this relation; without properties if there is none',
    ...resourceScopes(),
    modifiers: ['zoom', 'fields'],
    handle: async (request) => {
      const key = keyOf(request);
      const { zoom, fields } = shapeOf(request.query, relationsBelow(request));
      const found = await listEmbedded(sql, key, FIRST);
      if (found === undefined) throw await resourceMissing(sql, key);
      const back = resourceLink(key, found.baseUrl);
      const [only] = documentsOf(found, key.rel, zoom);
      const properties = only?.properties.filter(({ name }) => fields === null || fields.has(name)) ?? [];
      const title = only === undefined ? `${back.title} has no ${labelOf(key.rel)}` : titleFor(key);
      const self = { rel: 'self', href: `${back.href}/${key.rel}`, title };
      const document = { name: key.rel, title, links: [self, back], properties, embedded: only?.embedded ?? [] };
      return { status: 200, document, naming: { baseUrl: found.baseUrl, relationPrefix: naming.relationPrefix } };
    },
  });

/**
 * Creates the operation of all relations. The name of a relation decides whether it is a list, so the form of the response is
 * always the same.
 */
function createRelation(deps: Deps): Operation {
  const [many, one] = [createMany(deps), createOne(deps)];
  return {
    ...many,
    handle: (request, once) => (isMany(request.params['relation'] ?? '') ? many : one).handle(request, once),
  };
}

// The operations.

/** Returns the revenue charts up to a snapshot. */
const chartsOf = ({ sql }: Deps, key: ResourceKey): { beside?: Beside } =>
  key.type === 'subscription_mrr_snapshot'
    ? { beside: async () => ({ charts: revenueCharts(await findUpTo(sql, key, DAYS_SHOWN)) }) }
    : {};

export function createCommerceOperations(deps: Deps): Record<'list' | 'read' | 'relation', Operation> {
  return {
    list: createResourceList(deps),
    read: guarded({
      summary: 'The latest version of this resource; zoom, fields and links shape it',
      ...resourceScopes(),
      modifiers: ['zoom', 'fields', 'links'],
      handle: async (request) => {
        const key = resourceKeyOf(request);
        const stored = await findResource(deps.sql.reads, key);
        if (stored === undefined) throw await resourceMissing(deps.sql.reads, key);
        if (!isVisible(request.principal, { ...stored, type: key.type })) throw resourceNotFound(key.type);
        const { version, baseUrl, body } = stored;
        const document = resourceDocument({ ...key, baseUrl, body }, shapeOf(request.query, zoomableOf(key.type)));
        const naming = { baseUrl, relationPrefix: deps.config.naming.relationPrefix };
        return { status: 200, document: { ...document, version }, naming, ...chartsOf(deps, key) };
      },
    }),
    relation: createRelation(deps),
  };
}

// Makes charts of revenue snapshots, one per currency, because currencies cannot share an axis.

/** Days in the chart of a snapshot, including its own. */
const DAYS_SHOWN = 90;
/** Limits the curves: 2,000 currencies took 1.7 s, during which the process was blocked. */
const CURRENCIES_SHOWN = 10;

type Snapshot = {
  date: string;
  currencies: readonly { currency_code: string; mrr: number; active_count: number }[];
};

/** `XXX`: no currency (ISO 4217). */
const titleOfCurve = (currency: string): string =>
  currency === 'XXX' ? 'Monthly recurring revenue without a currency' : `Monthly recurring revenue in ${currency}`;

const omittedNote = (count: number): string =>
  count === 1
    ? 'Not shown: the currency with the fewest subscriptions.'
    : `Not shown: the ${count} currencies with the fewest subscriptions.`;

/**
 * Returns the charts of snapshots, given as JSON texts in any order. If there are too many currencies, those with the most
 * subscriptions over all days are drawn, because amounts of different currencies cannot be compared.
 */
export function revenueCharts(bodies: readonly string[]): Charts & { curves: readonly Curve[] } {
  const snapshots = bodies.map((body) => JSON.parse(body) as Snapshot).toSorted((a, b) => (a.date < b.date ? -1 : 1));
  const points = snapshots.flatMap(({ date, currencies }) =>
    currencies.map((one) => ({ currency: currencyOf(one) ?? '', day: date, value: one.mrr, count: one.active_count })),
  );
  const all = [...Map.groupBy(points, ({ currency }) => currency)]
    .map(([currency, of]) => ({ currency, of, count: of.reduce((sum, { count }) => sum + count, 0) }))
    .toSorted((a, b) => b.count - a.count || (a.currency < b.currency ? -1 : 1));
  const curves = all
    .slice(0, CURRENCIES_SHOWN)
    .toSorted((a, b) => (a.currency < b.currency ? -1 : 1))
    .map(({ currency, of }) => ({
      title: titleOfCurve(currency),
      currency,
      points: of.map(({ day, value }) => ({ day, value })),
    }));
  return { curves, ...(all.length > curves.length && { note: omittedNote(all.length - curves.length) }) };
}
