/** The Document of an event, and API operations on events: publish (scope `platform` only), list, read, and read the payload. */
import type { Runtime } from '#runtime/runtime.ts';
import { isVisible, visibleAppOf, zoneOf } from '#catalog/resource-operations.ts';
import { allEvents, resourceTypes, OPERATOR_CHOICES, zoomableOf, isTest } from '#catalog/catalog.ts';
import { resourceDocument, shapeOf, shapeOfEvent, addressOf, nameOf } from '#catalog/resource-document.ts';
import type { Sql } from '#db/pool.ts';
import type { Search } from '#db/search.ts';
import { listing } from '#http/list-operation.ts';
import { accepting, guarded, type ApiRequest, type Operation } from '#http/operation.ts';
import { Unknown } from 'typebox';
import { parseId, shardOf } from '#core/ids.ts';
import { notFound, Problem, type Fault } from '#core/problem.ts';
import { json, type Document, date, number, text } from '#hypermedia/document.ts';
import { storeOfAddress, type SufficientScopes } from '#core/principal.ts';
import { readTraceContext } from '#core/tracing.ts';
import type { PublishMetrics, Publisher, PublishedEvent } from './publish/publish.ts';
import { findEvent, listEvents, type StoredEvent, EVENT_PROPERTIES } from './events-sql.ts';
import { needsTimeZone, readPublish, describePublishInput } from './publish/publish-request.ts';
import { formatDate } from '#hypermedia/date.ts';

export function addressOfEvents(baseUrl: string, storeId: number): string {
  return `${baseUrl}/stores/${storeId}/events`;
}

/** Returns the URL of an event. */
export function addressOfEvent(event: { id: number }, baseUrl: string, storeId: number): string {
  return `${addressOfEvents(baseUrl, storeId)}/${event.id}`;
}

/**
 * Returns the Document of an event, with links to the latest version of its resource (`svc:resource`) and to the version that
 * it published (`svc:payload`). The links use the current base URL; only the payload keeps the base URL of the time of the
 * event.
 */
export function eventDocument(event: PublishedEvent, storeId: number, baseUrl: string): Document {
  const self = addressOfEvent(event, baseUrl, storeId);
  const about = { type: event.type, id: event.resourceId };
  const resource = addressOf({ baseUrl, storeId, ...about });
  const latest = { rel: 'resource', href: resource, title: 'Latest version of the resource' };
  return {
    name: 'event',
    // The column `event` exists already, so this column needs another heading.
    called: 'Event',
    title: `${nameOf(about)} ${event.action}`,
    links: [
      { rel: 'self', href: self, title: 'This event' },
      { rel: 'store', href: `${baseUrl}/stores/${storeId}`, title: 'Store of this event', crumb: 'Store' },
      { rel: 'events', href: addressOfEvents(baseUrl, storeId), title: 'All events of the store', crumb: 'Events' },
      // The resource of a test event does not exist.
      ...(isTest(event.action) ? [] : [latest]),
      { rel: 'payload', href: `${self}/payload`, title: 'Resource as published by this event' },
      { rel: 'statuses', href: `${self}/statuses`, title: 'Deliveries of this event' },
    ],
    embedded: [],
    properties: [
      number('id', event.id),
      text('event', `${event.type}/${event.action}`),
      text('resource_type', event.type),
      text('resource_id', event.resourceId),
      number('resource_version', event.version),
      date('date_created', formatDate(event.dateCreated, event.timeZone)),
    ],
  };
}

const EVENTS_TITLE = 'The events of this store';

/** Returns the Document of the events that an array published, in its order. */
export function publishedDocument(documents: readonly Document[], storeId: number, baseUrl: string): Document {
  return {
    name: 'events',
    links: [{ rel: 'self', href: addressOfEvents(baseUrl, storeId), title: EVENTS_TITLE }],
    embedded: [{ rel: 'events', documents }],
    properties: [],
  };
}

type Deps = Pick<Runtime, 'sql' | 'config' | 'derive'> & {
  publish: Publisher;
  search: Search;
  metrics: Pick<PublishMetrics, 'warned'>;
};

/** Returns the event in the path. Throws a 404 if the store has none with this id, or none that the caller sees. */
export async function eventOf(
  sql: Sql,
  { params, principal }: Pick<ApiRequest, 'params' | 'principal'>,
  storeId: number,
): Promise<StoredEvent> {
  const id = parseId(params['event_id'] ?? '');
  const event = id === undefined ? undefined : await findEvent(sql.reads, { shard: shardOf(storeId), storeId, id });
  if (event === undefined || !isVisible(principal, event)) throw notFound('event');
  return event;
}

/** Returns the 404 for an event whose payload was erased. */
const erased = (): Problem =>
  new Problem(404, { code: 'erased', message: 'The payload of this event was erased together with its resource' });

/** A webhook receives the events that it subscribes to, so `webhooks` suffices for each, but not for their list. */
const EVENT_SCOPES: SufficientScopes = ['store_read', 'events_read', 'webhooks'];

/** Adds the warnings of a published event, if there are any. */
function withWarnings(document: Document, warnings: readonly Fault[] = []): Document {
  if (warnings.length === 0) return document;
  return { ...document, properties: [...document.properties, json('warnings', warnings)] };
}

function createPublish({ sql, publish, config, derive, metrics }: Deps): Operation {
  const { baseUrl, events: limits } = config;
  // Keys of the HMAC that is stored as the fingerprint of a body under its idempotency key.
  const fingerprintKeys = derive('publish fingerprint');
  return accepting({
    title: 'Publish events',
    summary: `Publishes one event, or an array of up to ${limits.eventsPerRequest} in one transaction, at most once per Idempotency-Key; needs the scope platform`,
    access: 'platform',
    input: Unknown(),
    inputDescription: describePublishInput(limits),
    takesKey: true,
    statuses: [201],
    bodyLimitBytes: config.http.eventsBodyLimitBytes,
    handle: async (request) => {
      const { body, key: header, now } = request;
      const { storeId } = storeOfAddress(request);
      const timeZone = needsTimeZone(body) ? await zoneOf(sql, request) : 'UTC';
      if (timeZone === undefined) throw notFound('store');
      const { events, keys, isArray } = readPublish(body, { limits, header, fingerprintKeys, timeZone, now });
      const traceContext = readTraceContext(request.headers);
      const published = await publish({ storeId, events, keys, isArray, traceContext, now });
      metrics.warned(events.flatMap(({ warnings = [] }) => warnings.map(({ code }) => code)));
      const documents = published.map((event, index) =>
        withWarnings(eventDocument(event, storeId, baseUrl), events[index]?.warnings),
      );
      const [document] = documents;
      const [event] = published;
      if (!isArray && document !== undefined && event !== undefined) {
        return { status: 201, document, location: addressOfEvent(event, baseUrl, storeId) };
      }
      return { status: 200, document: publishedDocument(documents, storeId, baseUrl) };
    },
  });
}

const createList = ({ sql, search, config: { baseUrl, stores } }: Deps): Operation =>
  listing({
    summary: 'The events of this store, newest first, in pages',
    scopes: ['store_read', 'events_read'],
    title: EVENTS_TITLE,
    rel: 'events',
    properties: EVENT_PROPERTIES,
    zone: (request) => zoneOf(sql, request),
    searchedBy: {
      event: allEvents(),
      resource_type: resourceTypes(),
      resource_id: null,
      date_created: null,
    },
    handle: async (request) => {
      const store = storeOfAddress(request);
      const { storeId } = store;
      const app = visibleAppOf(request.principal);
      const found = await search(storeId, request.listing, (tx) => listEvents(tx, store, request.listing, app));
      if (found === undefined) throw notFound('store');
      const storeAddress = `${baseUrl}/stores/${storeId}`;
      return {
        path: `${storeAddress}/events`,
        items: found.rows.map((event) => eventDocument(event, storeId, baseUrl)),
        total: found.total,
        timeZone: found.timeZone,
        withheld: storeId === stores.platformStore ? [] : OPERATOR_CHOICES,
        of: { storeId, webhookId: null },
        links: [{ rel: 'store', href: storeAddress, title: 'The store', crumb: 'Store' }],
      };
    },
  });

const createPayload = ({ sql, config: { naming } }: Deps): Operation =>
  guarded({
    summary: 'The resource as published by this event; zoom, fields and links select what is included',
    scopes: EVENT_SCOPES,
    modifiers: ['zoom', 'fields', 'links'],
    handle: async (request) => {
      const storeId = storeOfAddress(request).storeId;
      const event = await eventOf(sql, request, storeId);
      const { type, resourceId, version, baseUrl, body } = event;
      if (body === '') throw erased();
      const frozen = { storeId, type, id: resourceId, baseUrl, body };
      const document = resourceDocument(frozen, shapeOfEvent(shapeOf(request.query, zoomableOf(type)), event));
      return {
        status: 200,
        document: { ...document, version },
        naming: { baseUrl, relationPrefix: naming.relationPrefix },
      };
    },
  });

export function createEventOperations(deps: Deps): Record<'publish' | 'list' | 'read' | 'payload', Operation> {
  return {
    publish: createPublish(deps),
    list: createList(deps),
    read: guarded({
      summary: 'One event',
      scopes: EVENT_SCOPES,
      handle: async (request) => {
        const storeId = storeOfAddress(request).storeId;
        const event = await eventOf(deps.sql, request, storeId);
        return { status: 200, document: eventDocument(event, storeId, deps.config.baseUrl) };
      },
    }),
    payload: createPayload(deps),
  };
}
