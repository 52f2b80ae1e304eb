/** Documentation of the relations of events; the examples are made by the same code as real documents. */
import { resourceDocument, FULL_SHAPE } from '#catalog/resource-document.ts';
import { asPublished } from '#catalog/resource-relations.ts';
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { eventDocument, publishedDocument } from './operations.ts';
import type { LoadResult } from './load/load.ts';
import { loadDocument } from './load/load-operation.ts';
import type { PublishedEvent } from './publish/publish.ts';

const event: PublishedEvent = {
  id: 691_489_734_656_233,
  type: 'transaction',
  resourceId: '70012',
  action: 'created',
  version: 1,
  timeZone: 'Europe/Berlin',
  dateCreated: new Date('2026-11-20T16:05:03Z'),
};

const eventExample = ({ baseUrl }: Naming): Document => eventDocument(event, 1001, baseUrl);

const eventResults: Example = (naming) => publishedDocument([eventExample(naming)], 1001, naming.baseUrl);

const loaded: readonly LoadResult[] = [
  {
    line: 1,
    result: 'loaded',
    resource: { type: 'transaction', id: '70012' },
    version: 1,
    errors: [],
    warnings: [],
  },
  {
    line: 2,
    result: 'refused',
    resource: null,
    version: null,
    errors: [{ code: 'required', message: 'resource must be an object: the complete resource', field: 'resource' }],
    warnings: [],
  },
];

const resource = { id: 70012, status: 'captured', total_order: 58.9, currency_code: 'EUR' };

const resourceExample: Example = ({ baseUrl }) =>
  asPublished(
    resourceDocument(
      { storeId: 1001, type: event.type, id: event.resourceId, baseUrl, body: JSON.stringify(resource) },
      FULL_SHAPE,
    ),
  );

export const eventChapter: Chapter = {
  title: 'Events',
  about:
    'Changes in a store, published by the platform or by Halcyon itself. Each event is delivered to the webhooks that subscribe to it.',
  relations: [
    {
      rel: 'events',
      title: 'The events of a store',
      about:
        'The events of this store. Only the platform publishes here: one event as an object (201), or up to 1,000 as an array (200) that is written in one transaction, at most 16 MiB. All errors of an array are reported together, each with its position: 3.resource.id. The header Idempotency-Key applies to the whole request, the member idempotency_key to one event; a repetition within 24 hours returns the first result, and the same key with another body is a 422.',
      paths: ['/stores/:store_id/events'],
      makes: ['event'],
      example: listExample('events', 'The events of this store', '/stores/1001/events', eventExample),
      results: eventResults,
    },
    {
      rel: 'event',
      title: 'An event',
      about:
        'A change of one resource, and the version that resulted from it. Events are kept for 30 days unless the operator configures another period.',
      paths: ['/stores/:store_id/events/:event_id'],
      example: eventExample,
    },
    {
      rel: 'load',
      title: 'Load history',
      about:
        'A POST stores versions of resources that the platform had before it used Halcyon: one item, an array or lines of JSON (application/x-ndjson), at most 16 MiB. It makes no event, no delivery and no lifecycle step, and the recurring revenue of a subscription is in the balance of the next snapshot without being new. A version replaces the stored one only if both have a date_modified and its own is later, so a request can be repeated. Each item is loaded by itself. With dry_run=1 nothing is written, and the results are the same, except for several versions of one resource.',
      paths: ['/stores/:store_id/load'],
      results: ({ baseUrl }) => loadDocument(loaded, 1001, baseUrl),
    },
    {
      rel: 'load_results',
      title: 'Results of a load',
      about:
        'One result for each item, in their order: loaded, kept (not stored, because it does not replace the stored version, the resource was erased later, or another version of the request is newer) or refused, with the errors of the item. Warnings name what was loaded and may not be what the platform means. line counts from 1, and blank lines count.',
    },
    {
      rel: 'sample_events',
      title: 'Sample events in a sandbox store',
      about:
        'A POST publishes realistic events of customers, orders and subscriptions that do not exist, as a platform would: they are delivered, listed and kept like all others. scenario selects the events, count how many customers there are. Only a sandbox store links here; in other stores the request is a 409. A store may make such requests 20 times in a row, then once in five minutes.',
      paths: ['/stores/:store_id/sample_events'],
      results: eventResults,
    },
    {
      rel: 'payload',
      title: 'Payload of an event',
      about:
        'The resource as it was published by the event, with the links and the time zone of that time; it never changes, except by erasure. zoom, fields and links select what is included, as for a delivery.',
      paths: ['/stores/:store_id/events/:event_id/payload'],
      example: resourceExample,
    },
    {
      rel: 'send_webhooks',
      title: 'Send a resource again',
      about:
        'A POST sends the latest version of the resource to webhooks again, as a new event with the action refeed: to the webhooks listed in webhooks, or to all active webhooks for this type of resource; event limits these to the webhooks that subscribe to it. It creates no new version. webhook-id is new, because receivers drop ids that they have seen, and Service-Webhook-Refeed is true. If a listed webhook cannot receive it, the response names each such webhook and nothing is sent.',
      paths: ['/stores/:store_id/:collection/:id/send_webhooks'],
      makes: ['event'],
    },
    {
      rel: 'resource',
      title: 'Resource of an event or a delivery',
      about:
        'Links from an event, a delivery or an attempt to the latest version of its resource: a transaction, a subscription, a customer or one of the other types.',
      paths: ['/stores/:store_id/:collection/:id'],
      example: resourceExample,
    },
  ],
};
