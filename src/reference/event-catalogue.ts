/** The event catalogue (Documents of all event types and of one, and its part of the pages), and how to receive deliveries of this server. */
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
import { frame, listed, namedTable, pathOf, relationLink, table } from './page-frame.ts';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootOf } from '#http/root.ts';
import { formAround } from '#hypermedia/html/form.ts';
import type { Setting } from './setting.ts';

// The catalogue.

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

// How to receive deliveries: names of headers, retries, and the programs of docs/verify, which are tested with deliveries, under the names of
// the headers of this server.

const FOLDER = join(import.meta.dirname, '../../docs/verify');

type Program = { language: string; source: string };

const read = (language: string, file: string): Program => ({
  language,
  source: readFileSync(join(FOLDER, file), 'utf8'),
});

/** Reads the files when the module is loaded, so that a server whose files are incomplete does not start. */
const programs: readonly Program[] = [
  read('JavaScript', 'javascript/verify.mjs'),
  read('Python', 'python/verify.py'),
  read('PHP', 'php/verify.php'),
  read('Ruby', 'ruby/verify.rb'),
  read('Go', 'go/verify.go'),
  read('Java', 'java/Verify.java'),
];

/** Returns the programs with another prefix of headers, which are in lower case where they are compared. */
function programsFor(prefix: string): readonly Program[] {
  return programs.map(({ language, source }) => ({
    language,
    source: source
      .replaceAll('Service-Webhook-', `${prefix}-Webhook-`)
      .replaceAll('service-webhook-', `${prefix.toLowerCase()}-webhook-`),
  }));
}

/** Returns the Document of `/docs/receiving`. */
export function receivingDocument(setting: Setting): Document {
  const { naming, webhookHeaderPrefix: prefix, deliveries, handshakeOrigin, installCommands } = setting;
  return {
    name: 'receiving',
    title: 'Receiving webhooks',
    links: [
      { rel: 'self', href: `${naming.baseUrl}/docs/receiving`, title: 'Receiving webhooks' },
      { rel: 'event_types', href: `${naming.baseUrl}/docs/events`, title: 'All event types' },
      { rel: 'docs', href: `${naming.baseUrl}/docs`, title: 'Documentation of this API', type: 'text/html' },
    ],
    embedded: [],
    properties: [
      text('header_prefix', prefix),
      text.orNull('handshake_origin', handshakeOrigin ?? null),
      number('timeout_seconds', deliveries.timeoutSeconds),
      json('retry_seconds', deliveries.retrySeconds),
      json('packages', { npm: installCommands.npm ?? null, python: installCommands.python ?? null }),
      json('programs', programsFor(prefix)),
    ],
  };
}

/** Returns the programs, each folded. */
export function programsPart({ webhookHeaderPrefix }: Setting): Markup {
  return html`${programsFor(webhookHeaderPrefix).map(({ language, source }) => folded(language, source))}`;
}

/** A webhook that can send a test delivery, with the name of its store. */
export type Testable = { id: number; name: string; store: string };
export const TESTABLE_MAX = 10;

const SEND = 'Send a sample event';

/** Returns the form that sends a test delivery; its result is the page of the delivery. */
function testForm({ id, name }: Testable, session: NonNullable<View['session']>, naming: Naming): Markup {
  const href = `${naming.baseUrl}/webhooks/${id}/test`;
  const button = html`<button type="submit" class="quiet" aria-label="${SEND} to ${name}">${SEND}</button>`;
  return formAround(
    { name: 'test', title: SEND, method: 'POST', href, fields: [] },
    { naming, session, version: undefined },
    button,
  );
}

const tests = (session: NonNullable<View['session']>, testable: readonly Testable[], naming: Naming): Markup =>
  html`${table(
    'Webhooks with a URL and events',
    ['Webhook', 'Store', 'Test'],
    testable
      .slice(0, TESTABLE_MAX)
      .map((one) => [
        html`<a href="${pathOf(`/webhooks/${one.id}`, naming)}">${one.name}</a>`,
        one.store,
        testForm(one, session, naming),
      ]),
  )}
  ${
    testable.length > TESTABLE_MAX &&
    html`<p>
      These are the newest. The page of each other webhook in <a href="${pathOf('/stores', naming)}">your stores</a> has
      the button, too.
    </p>`
  }`;

/** Where the page has `testPart`. */
export const TEST_PLACE = '<!-- test -->';

/** Returns what a person needs to send test deliveries: a button for each webhook, or the way to it. */
export function testPart({ naming, authUrl }: Setting, { session }: View, testable: readonly Testable[]): Markup {
  const signIn = `${rootOf(authUrl)}/sign-in?${new URLSearchParams({ return_to: pathOf('/docs/receiving', naming) }).toString()}`;
  if (session === undefined)
    return html`<p><a href="${signIn}">Sign in</a>, and this section has a button for each webhook of your stores.</p>`;
  if (testable.length > 0) return tests(session, testable, naming);
  return html`<p>
    No webhook of <a href="${pathOf('/stores', naming)}">your stores</a> has a URL and events: create one, and this
    section has a button for it.
  </p>`;
}
