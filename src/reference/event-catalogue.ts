/** The event catalogue: Documents of all event types and of one, and its part of the pages. */
import { defaultRepresentation } from '#hypermedia/render.ts';
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
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { frame, listed, namedTable, pathOf, relationLink } from './page-frame.ts';

/** Returns the body of a delivery as text. */
function bodyOf({ document }: EventType['examples'][number], naming: Naming): string {
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

const code = (name: string): Markup => html`<code>${name}</code>`;

const PUBLISHERS = { platform: 'the platform', halcyon: 'Halcyon' } as const;

const folded = (title: Markup | string, body: string): Markup =>
  html`<details>
    <summary>${title}</summary>
    <pre class="copyable">${body}</pre>
  </details>`;

const indented = (body: string): string => JSON.stringify(JSON.parse(body), null, 2);

/** Renders event types of one resource type, whose events have the same body. */
function bodyPart(types: readonly [EventType, ...EventType[]], naming: Naming): Markup {
  const [{ resource, version, zooms, schema, examples }] = types;
  const versionNote = version === null ? '' : ` Version ${version}.`;
  return html`<p>${resource.about} See ${relationLink(resource.type, naming)}.${versionNote}</p>
    ${namedTable(
      `Events of ${resource.type}`,
      ['Event', 'When', 'Published by', 'Since'],
      types.map(({ event, when, publishedBy, since }) => [
        event,
        when,
        publishedBy.map((one) => PUBLISHERS[one]).join(' or '),
        since,
      ]),
    )}
    <p>
      ${
        zooms.length === 0
          ? 'It has no relations to embed.'
          : html`${code('zoom')} can embed ${listed(zooms.map((zoom) => code(zoom)))}, and below an embedded resource
            the relations of its type.`
      }
    </p>
    ${folded('JSON Schema of the body', JSON.stringify(schema, null, 2))}
    ${examples.map((example) => {
      const title = example.query === '' ? 'Example of a body' : html`Example with every ${code('zoom')}`;
      return folded(title, indented(bodyOf(example, naming)));
    })}`;
}

/** Renders the catalogue: one section per resource type. */
export function eventCatalogue(types: readonly EventType[], naming: Naming): Markup {
  return html`${[...Map.groupBy(types, ({ resource }) => resource.type).values()].map(
    ([first, ...others]) =>
      first !== undefined &&
      html`<section id="${first.resource.type}">
        <h3>${first.resource.title}</h3>
        ${bodyPart([first, ...others], naming)}
      </section>`,
  )}`;
}

export function eventTypePage(eventType: EventType, naming: Naming, view: View): string {
  const { event, when, resource } = eventType;
  return frame({
    title: event,
    at: 'events',
    naming,
    view,
    main: html`<div class="card">
        <h1>${event}</h1>
        <p>${when} <a href="${pathOf('/docs/events', naming)}">All event types</a></p>
      </div>
      <section class="card">
        <h2>${resource.title}</h2>
        ${bodyPart([eventType], naming)}
      </section>`,
  });
}
