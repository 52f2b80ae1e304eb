/** The event catalogue as Documents: all event types, and one with its schema and examples. */
import { defaultRepresentation } from '#http/negotiate.ts';
import type { EventType } from '#http/relation.ts';
import {
  json,
  number,
  text,
  type Document,
  type Link,
  type Naming,
  type Property,
  type Value,
} from '#hypermedia/document.ts';

/** Returns the body of a delivery as text. */
export function bodyOf({ document }: EventType['examples'][number], naming: Naming): string {
  return defaultRepresentation.format.render(document, naming);
}

const addressOf = ({ event }: EventType, { baseUrl }: Naming): string => `${baseUrl}/docs/events/${event}`;

const listLink = ({ baseUrl }: Naming): Link => ({
  rel: 'event_types',
  href: `${baseUrl}/docs/events`,
  title: 'All event types',
});

/** Returns the Document of an event type without its schema and examples, as in the list of all. */
export function eventTypeSummary(eventType: EventType, naming: Naming): Document {
  const { event, resource, when, publishedBy, since, version, zooms } = eventType;
  return {
    name: 'event_type',
    title: event,
    links: [
      { rel: 'self', href: addressOf(eventType, naming), title: event },
      { rel: 'relation', href: `${naming.baseUrl}/rels/${resource.type}`, title: 'The resource in the body' },
    ],
    embedded: [],
    properties: [
      text('event', event),
      text('resource_type', resource.type),
      text('when', when),
      json('published_by', publishedBy),
      json('zoom', zooms),
      text('since', since),
      number.orNull('version', version),
    ],
  };
}

const ofAnyForm = (name: string, value: Exclude<Value, null>): Property => ({
  ...json(name, value),
  published: 'value',
});

/** Returns the Document of an event type, with the JSON Schema and examples of the body that webhooks receive. */
export function eventTypeDocument(eventType: EventType, naming: Naming): Document {
  const summary = eventTypeSummary(eventType, naming);
  const examples = eventType.examples.map((example) => ({
    query: example.query,
    body: JSON.parse(bodyOf(example, naming)) as Value,
  }));
  return {
    ...summary,
    links: [...summary.links, listLink(naming)],
    properties: [...summary.properties, ofAnyForm('schema', eventType.schema), ofAnyForm('examples', examples)],
  };
}

/** Returns the Document of `/docs/events`: all event types without schemas and examples. */
export function eventTypesDocument(eventTypes: readonly EventType[], naming: Naming): Document {
  const { href, title = '' } = listLink(naming);
  return {
    name: 'event_types',
    title: 'Event types',
    links: [
      { rel: 'self', href, title },
      { rel: 'docs', href: `${naming.baseUrl}/docs`, title: 'Documentation of this API', type: 'text/html' },
    ],
    embedded: [{ rel: 'event_types', documents: eventTypes.map((one) => eventTypeSummary(one, naming)) }],
    properties: [],
  };
}
