/** What the relations of events mean, with examples made as the real ones are. */
import { resourceDocument } from '#catalog/document.ts';
import { listExample, type Chapter, type Example } from '#http/relation.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { eventDocument } from './document.ts';
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

const eventsExample = listExample('events', 'The events of this store', '/stores/1001/events', eventExample);

const resource = { id: 70012, status: 'captured', total_order: 58.9, currency_code: 'EUR' };

const resourceExample: Example = ({ baseUrl }) =>
  resourceDocument(
    { storeId: 1001, type: event.type, id: event.resourceId, baseUrl, body: JSON.stringify(resource) },
    { zoom: {}, fields: null },
  );

export const eventChapter: Chapter = {
  title: 'Events',
  about: 'What happened in a store, as the platform or Halcyon itself told it. Webhooks are made from these.',
  relations: [
    {
      rel: 'events',
      title: 'The events of a store',
      about:
        'What happened in this store. Only the platform publishes here: one event as an object (201), or up to 1,000 as an array (200), which are written in one transaction or not at all, 16 MiB at most. Everything wrong with an array is told at once, by place: 3.resource.id. The header Idempotency-Key is for the whole request, the member idempotency_key for one event; what comes again under its key within 24 hours is answered as the first time, something else under it is a 422.',
      paths: ['/stores/:store_id/events'],
      makes: 'event',
      example: eventsExample,
    },
    {
      rel: 'event',
      title: 'An event',
      about:
        'That something happened to one resource, and which version of it came of that. Events are kept for 30 days, unless the operator says otherwise.',
      paths: ['/stores/:store_id/events/:event_id'],
      example: eventExample,
    },
    {
      rel: 'payload',
      title: 'What an event carried',
      about:
        'The resource as it was when the event happened, with the links and the time zone of that moment; it never changes, but for what is erased. zoom and fields shape it as they shape a delivery.',
      paths: ['/stores/:store_id/events/:event_id/payload'],
      example: resourceExample,
    },
    {
      rel: 'send_webhooks',
      title: 'Sending a resource again',
      about:
        'A POST here sends the latest version of the resource to webhooks once more, as an event called refeed of its own: to those that webhooks names, or else to all active ones that are for such resources, which event narrows to those that are sent it. It makes no new version, and webhook-id is a new one, since receivers drop what they know. Receivers see Service-Webhook-Refeed: true. What cannot be sent is told webhook by webhook, and then nothing is.',
      paths: ['/stores/:store_id/:collection/:id/send_webhooks'],
      makes: 'event',
    },
    {
      rel: 'resource',
      title: 'What an event or a delivery is about',
      about:
        'Leads from an event, a delivery or an attempt to the latest version of the resource it is about: a transaction, a subscription, a customer or another of the seven.',
      paths: ['/stores/:store_id/:collection/:id'],
      example: resourceExample,
    },
  ],
};
