/** How the API works, in the words and literals of the contract. */
import { homeOf } from '#http/root.ts';
import { bodyMediaTypes } from '#http/bodies/body.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { formats } from '#hypermedia/render.ts';
import type { Setting } from '../setting.ts';
import { FAULTS } from '../words.ts';
import { listed, namedTable, pathOf, relationLink, table } from './frame.ts';

const code = (text: string): Markup => html`<code>${text}</code>`;

const begin = ({ naming, authUrl, versionHeader, scopes }: Setting): Markup =>
  html`<div class="card">
    <h1>How to begin</h1>
    <ol>
      <li>
        Have an OAuth client: make one on <a href="${authUrl}/account/clients">your account page</a>, or by
        ${relationLink('register', naming)}.
      </li>
      <li>
        Send a person to ${relationLink('authorize', naming)} with ${code('response_type=code')}, your
        ${code('client_id')}, a ${code('scope')} and a random ${code('state')}. They come back to your redirect address
        with a code, good for 30 seconds.
      </li>
      <li>
        Exchange the code at ${relationLink('token', naming)} for an access token, good for two hours, and a refresh
        token.
      </li>
      <li>Ask the home of the API, and follow its links from there:</li>
    </ol>
    <pre>
curl ${homeOf(naming.baseUrl)} \\
  -H '${versionHeader}: 1' \\
  -H 'Authorization: Bearer hal_at_…'</pre>
    ${table(
      'Scopes',
      ['Scope', 'What it is for'],
      Object.entries(scopes).map(([scope, about]) => [code(scope), about]),
    )}
  </div>`;

const requests = ({ versionHeader }: Setting): Markup =>
  html`<section class="card">
    <h2>Every request</h2>
    <ul>
      <li>
        carries ${code(`${versionHeader}: 1`)}. Without it the answer is a 400 with the code
        ${code('version_required')}. Not needed for ${code('text/html')}, OPTIONS, this documentation and the
        authorization server.
      </li>
      <li>carries ${code('Authorization: Bearer …')}; a token in the address or in a body is refused.</li>
      <li>is answered in the format that ${code('Accept')} asks for:</li>
    </ul>
    ${table(
      'Formats',
      ['Accept', 'For'],
      formats.map(({ mediaTypes, isPage }) => [
        listed(mediaTypes.map(code)),
        isPage ? 'people: the same as pages and forms, with a session' : 'programs',
      ]),
    )}
    <p>
      Bodies come in ${listed(bodyMediaTypes.map(code))}. What you may not set is refused, but for what you have read:
      properties that are only read, links and embedded things are ignored, so you can PUT back what you got.
    </p>
  </section>`;

const errors = ({ naming }: Setting): Markup =>
  html`<section class="card">
    <h2>Errors</h2>
    <p>
      Every error has one shape in every format: ${relationLink('errors', naming)} embeds one entry for each fault, with
      ${code('logref')}, ${code('code')}, ${code('message')} and the ${code('field')} that is wrong. Quote the
      ${code('logref')} when you ask the operator for help.
    </p>
    ${namedTable('Errors', ['Status', 'Meaning'], Object.entries(FAULTS))}
  </section>`;

const collections = ({ naming }: Setting): Markup =>
  html`<section class="card">
    <h2>Collections</h2>
    <p>
      A page has ${code('total_items')}, ${code('returned_items')}, ${code('limit')} and ${code('offset')}, and always
      the links ${code('first')}, ${code('prev')}, ${code('next')} and ${code('last')}: at the ends they lead to the
      page itself. The header ${code('Link')} leaves them out there.
    </p>
    <ul>
      <li>${code('?limit=100&offset=200')}: 1 to 300 items, 20 unless you say</li>
      <li>${code('?order=date_created desc,name')}: by these properties</li>
      <li>${code('?fields=name,url')}: only these properties of the items</li>
      <li>
        ${code('?name=*shop*')}, ${code('?is_active=1')}, ${code('?date_created:greaterthan=2026-11-01')},
        ${code(':lessthan')}, ${code(':not')}: only items like these
      </li>
      <li>
        ${code('?zoom=items,items:item_options,customer')}: embeds ${relationLink('items', naming)} and what lies below
      </li>
    </ul>
    <p>A word that is not known is refused with a 400, never ignored.</p>
  </section>`;

const changes = ({ rate, naming }: Setting): Markup =>
  html`<section class="card">
    <h2>Changes that are safe</h2>
    <ul>
      <li>
        <strong>Conditional:</strong> every GET has an ${code('ETag')}. ${code('If-None-Match')} answers 304 where
        nothing has changed; ${code('If-Match')} on PATCH, PUT, DELETE and what else takes it answers 412 where somebody
        else was faster.
      </li>
      <li>
        <strong>Once:</strong> with an ${code('Idempotency-Key')} a POST that makes something makes it once. The same
        key and body get the first answer again for 24 hours; another body is a 422.
      </li>
      <li>
        <strong>PATCH</strong> changes what is sent, <strong>PUT</strong> returns what is not sent to its default,
        ${code('null')} and the empty text clear. OPTIONS of any address says what it can do.
      </li>
      ${
        rate.requestsPerSecond > 0 &&
        html`<li>
          <strong>Rate limit:</strong> ${rate.requestsPerSecond} requests a second for each grant, ${rate.burstRequests}
          at once. ${code('RateLimit')} and ${code('RateLimit-Policy')} say where you stand; a 429 says by
          ${code('Retry-After')} how many seconds to wait.
        </li>`
      }
      <li>Dates are written ${code('2026-11-20T16:05:03+0000')}, in the time zone of their store.</li>
    </ul>
    <p>OPTIONS documents are explained at ${relationLink('options', naming)}.</p>
  </section>`;

const webhooks = ({ naming, webhookHeaderPrefix }: Setting): Markup =>
  html`<section class="card">
    <h2>Webhooks</h2>
    <p>
      Instead of asking again and again, make a ${relationLink('webhook', naming)}: what happens is sent to you by POST,
      signed with your key in ${code(`${webhookHeaderPrefix}-Webhook-Signature`)} (hex HMAC-SHA256 of the raw body) and
      ${code('webhook-signature')} (Standard Webhooks). ${code(`${webhookHeaderPrefix}-Webhook-Event`)} says what
      happened, ${code('webhook-id')} stays the same when it is tried again. Answer 2xx within 30 seconds.
    </p>
    <p>
      What was sent and what came back is read at ${relationLink('statuses', naming)} and
      ${relationLink('logs', naming)}, see also <a href="${pathOf('/rels/events', naming)}">events</a>.
    </p>
  </section>`;

export const guide = (setting: Setting): Markup =>
  html`${begin(setting)} ${requests(setting)} ${errors(setting)} ${collections(setting)} ${changes(setting)}
  ${webhooks(setting)}`;
