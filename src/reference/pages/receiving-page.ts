/** How to receive webhooks, as a page: verification, retries, order, duplicates, key rotation, encryption. */
import { rootOf } from '#http/route.ts';
import type { Naming } from '#hypermedia/document.ts';
import { formAround } from '#hypermedia/html/form.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { programsFor } from '../receiving.ts';
import type { InstallCommands } from '../packages.ts';
import type { Setting } from '../setting.ts';
import { frame, namedTable, pathOf, table, relationLink } from './page-frame.ts';

const code = (text: string): Markup => html`<code>${text}</code>`;

const MINUTE = 60;
const HOUR = 60 * MINUTE;

/** Returns a duration in the largest unit that fits: `5 s`, `10 min`, `75.6 h`. */
function durationOf(seconds: number): string {
  if (seconds < MINUTE) return `${seconds} s`;
  const [unit, name] = seconds < HOUR ? [MINUTE, 'min'] : [HOUR, 'h'];
  return `${Number((seconds / unit).toFixed(1))} ${name}`;
}

const steps = ({ naming, webhookHeaderPrefix: prefix, deliveries }: Setting): Markup =>
  html`<div class="card">
    <h1>Receiving webhooks</h1>
    <p>
      When an event occurs, the URL of your ${relationLink('webhook', naming)} receives a POST. See
      <a href="${pathOf('/docs/events', naming)}">event types</a> for the bodies. A receiver must:
    </p>
    <ol>
      <li>Read the raw body, before any parser.</li>
      <li>
        Verify ${code('webhook-signature')} and ${code(`${prefix}-Webhook-Signature`)} with these bytes, and compare in
        constant time. Together they sign the id, the time and the body; the other headers are protected by TLS only.
      </li>
      <li>Refuse a ${code('webhook-timestamp')} more than five minutes in the past or in the future.</li>
      <li>Drop duplicates by ${code('webhook-id')}.</li>
      <li>
        Respond with 2xx within ${durationOf(deliveries.timeoutSeconds)}, before any slow work; with 401 if a signature
        does not match.
      </li>
    </ol>
  </div>`;

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

const testing = ({ naming, authUrl }: Setting, { session }: View, testable: readonly Testable[]): Markup => {
  const signIn = `${rootOf(authUrl)}/sign-in?${new URLSearchParams({ return_to: pathOf('/docs/receiving', naming) }).toString()}`;
  return html`<section class="card" id="test">
    <h2>Test your endpoint</h2>
    <p>
      A test delivery is sent at once, with the key, the headers and the format of the webhook, and its page has the
      response of your endpoint. Programs POST to ${relationLink('test', naming)} of a webhook. For an app on your
      computer, ${code('halcyon listen')} forwards deliveries, and ${code('halcyon trigger')} sends one.
    </p>
    ${
      session === undefined
        ? html`<p><a href="${signIn}">Sign in</a>, and this section has a button for each webhook of your stores.</p>`
        : testable.length === 0
          ? html`<p>
              No webhook of <a href="${pathOf('/stores', naming)}">your stores</a> has a URL and events: create one, and
              this section has a button for it.
            </p>`
          : tests(session, testable, naming)
    }
  </section>`;
};

const headers = ({ sentRequests }: Setting): Markup =>
  html`<section class="card">
    <h2>Headers</h2>
    ${namedTable(
      'Headers of a delivery',
      ['Header', 'Meaning'],
      sentRequests.headers.map(({ name, about }) => [name, about]),
    )}
  </section>`;

function installing({ npm, python }: InstallCommands): Markup {
  const commands = [npm, python].filter((command) => command !== undefined);
  return html`${commands.length > 0 && html`<pre class="copyable">${commands.join('\n')}</pre>`}
  ${
    commands.length < 2 &&
    html`<p>
      This server does not have ${commands.length === 0 ? 'the packages' : 'the other package'} yet: its operator builds
      them with ${code('npm run packages')}, and restarts it.
    </p>`
  }`;
}

const verification = ({ webhookHeaderPrefix: prefix, installCommands }: Setting): Markup =>
  html`<section class="card">
    <h2>Verify a delivery</h2>
    <p>
      Each program is complete, needs only the standard library, and has the names of the headers of this server. It
      reads the keys (one per line), the headers (${code('name: value')}) and the body from files: copy its function
      ${code('verify')} into your app. For TypeScript the package ${code('@halcyon/receiver')} does all of this:
      ${code(`verifyDelivery({ headers, body, keys, headerPrefix: '${prefix}' })`)}, and has middleware for Express,
      Fastify, Hono and Next. For Python the package ${code('halcyon-receiver')} has
      ${code(`verify_delivery(headers=headers, body=body, keys=keys, header_prefix="${prefix}")`)}. No public registry
      has them: do not install a package of these names from one. Libraries for Standard Webhooks verify
      ${code('webhook-signature')}.
    </p>
    ${installing(installCommands)}
    ${programsFor(prefix).map(
      ({ language, rawBody, source }) =>
        html`<details>
          <summary>${language}</summary>
          <p>The raw body: ${code(rawBody)}</p>
          <pre class="copyable">${source}</pre>
        </details>`,
    )}
  </section>`;

/** The section that errors of a webhook's url link to. */
const handshake = (origin: string): Markup =>
  html`<section class="card" id="handshake">
    <h2>Before the first delivery: the handshake</h2>
    <p>
      A webhook gets a URL only if the endpoint agrees (CloudEvents,
      <a href="https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md#4-abuse-protection"
        >HTTP 1.1 Web Hooks for Event Delivery, section 4</a
      >). When a webhook is created with a URL, and when its URL changes, the endpoint gets this request, without the
      headers and the key of the webhook:
    </p>
    <pre>
OPTIONS /hook HTTP/1.1
WebHook-Request-Origin: ${origin}</pre>
    <p>It must respond within 5 seconds with a status 2xx, no redirect, and this header:</p>
    <pre class="copyable">WebHook-Allowed-Origin: ${origin}</pre>
    <p>
      ${code('*')} allows every service. The option ${code('allowedOrigin')} of the middleware of
      ${code('@halcyon/receiver')} responds to the handshake, as the functions ${code('handshakeHeaders')} of this
      package and ${code('handshake_headers')} of ${code('halcyon-receiver')} do for other receivers. Deliveries carry
      ${code('WebHook-Request-Origin')} too.
    </p>
  </section>`;

const retries = ({ naming, deliveries }: Setting): Markup =>
  html`<section class="card">
    <h2>Retries</h2>
    <p>
      Any other response than 2xx, and none within ${durationOf(deliveries.timeoutSeconds)}, is a failed attempt. The
      ${code('retry_profile')} of the webhook sets the waits before the next attempts, each lengthened by a random 0 to
      20 %.
    </p>
    ${namedTable(
      'Retry profiles',
      ['Profile', 'Attempts', 'Waits between attempts', 'Disabled after'],
      Object.entries(deliveries.retrySeconds).map(([profile, waits]) => [
        profile,
        String(waits.length + 1),
        waits.map(durationOf).join(', '),
        `${deliveries.disableAfterFailures} consecutive failures over at least ${durationOf(deliveries.disableAfterSeconds[profile] ?? 0)}`,
      ]),
    )}
    <ul>
      <li>A 410 disables the webhook at once.</li>
      <li>
        A 429 or 503 with ${code('Retry-After')} pauses all deliveries of the webhook for that time, at most an hour,
        and does not count towards disabling it.
      </li>
      <li>
        After a webhook was disabled, enable it and POST to ${relationLink('recover', naming)}: the events that it
        missed in the last ${deliveries.retentionDays} days are sent.
      </li>
      <li>
        ${relationLink('logs', naming)} has the response to each attempt, and ${code('reason')} explains a failure.
      </li>
    </ul>
  </section>`;

const order = ({ webhookHeaderPrefix: prefix, deliveries }: Setting): Markup =>
  html`<section class="card">
    <h2>Duplicates and order</h2>
    <p>
      Each event is delivered at least once: if your response is lost, the delivery is sent again with the same
      ${code('webhook-id')}. Insert the id in the database transaction that processes the event, and stop if it exists.
      Keep ids for ${deliveries.retentionDays} days; older events are not sent.
    </p>
    <p>
      Events arrive approximately in order; a retry arrives after later events. Keep the highest
      ${code(`${prefix}-Webhook-Resource-Version`)} of each resource, and ignore lower ones, and 0: it is a test
      delivery, or a version that was outdated when it was published.
    </p>
  </section>`;

const keys = ({ naming, webhookHeaderPrefix: prefix }: Setting): Markup =>
  html`<section class="card">
    <h2>Key rotation</h2>
    <p>
      ${relationLink('rotate_key', naming)} gives a webhook a new key. For 24 hours, or until you finish the rotation,
      both are valid: configure both in your receiver, in any order.
    </p>
    ${namedTable(
      'Keys during a rotation',
      ['Use', 'Before', 'During', 'After'],
      [
        ['webhook-signature', 'old', 'old and new, separated by a blank', 'new'],
        [`${prefix}-Webhook-Signature`, 'old', 'old', 'new'],
        [`${prefix}-Webhook-Signature-Next`, 'none', 'new', 'none'],
        ['Encryption', 'old', 'old', 'new'],
      ],
    )}
  </section>`;

const encryption = (): Markup =>
  html`<section class="card">
    <h2>Encryption over plain http</h2>
    <p>
      Prefer https. A ${code('json')} body for an address with http is encrypted, unless the address is on the machine
      of the operator: ${code('Content-Type')} is ${code('application/jose')}, and the body is a JWE in compact
      serialization (RFC 7516) with ${code('alg')} ${code('dir')} and ${code('enc')} ${code('A256GCM')}. The key is the
      SHA-256 of the whole string ${code('encryption_key')} in UTF-8. Verify before you decrypt: the signatures are over
      the encrypted bytes. ${code('kid')} is the first 16 hex digits of the HMAC-SHA256 of the string ${code('kid')}
      under the string ${code('encryption_key')}, and identifies the key during a rotation.
    </p>
  </section>`;

export function receivingPage(setting: Setting, view: View, testable: readonly Testable[]): string {
  return frame({
    title: 'Receiving webhooks',
    at: 'receiving',
    naming: setting.naming,
    view,
    main: html`${steps(setting)} ${setting.handshakeOrigin !== undefined && handshake(setting.handshakeOrigin)}
    ${headers(setting)} ${verification(setting)} ${testing(setting, view, testable)} ${retries(setting)}
    ${order(setting)} ${keys(setting)} ${encryption()}`,
  });
}
