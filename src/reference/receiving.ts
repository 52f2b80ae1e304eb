/**
 * How to receive deliveries of this server: names of headers, retries, and the programs of docs/verify, which are tested with
 * deliveries, under the names of its headers.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootOf } from '#http/root.ts';
import { json, number, text, type Document, type Naming } from '#hypermedia/document.ts';
import { formAround } from '#hypermedia/html/form.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { pathOf, table } from './page-frame.ts';
import type { Setting } from './setting.ts';

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
  return html`${programsFor(webhookHeaderPrefix).map(
    ({ language, source }) =>
      html`<details>
        <summary>${language}</summary>
        <pre class="copyable">${source}</pre>
      </details>`,
  )}`;
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
