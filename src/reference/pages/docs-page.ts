/** Getting started, and the list of all addresses, as a page. */
import type { Chapter } from '#http/relation.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { homeOf } from '#http/root.ts';
import { bodyMediaTypes } from '#http/bodies/body.ts';
import { formats } from '#hypermedia/render.ts';
import { templateOf, type RelationDocs } from '../relation-docs.ts';
import type { Setting } from '../setting.ts';
import { ERROR_MEANINGS } from '../reference-words.ts';
import { frame, listed, pathOf, relationLink, table, namedTable } from './page-frame.ts';

// The guide to the API on `/docs`.

const code = (text: string): Markup => html`<code>${text}</code>`;

const begin = ({ naming, authUrl, versionHeader, scopes }: Setting): Markup =>
  html`<div class="card">
    <h1>Getting started</h1>
    <ol>
      <li>
        Create an OAuth client on <a href="${authUrl}/account/clients">your account page</a>, or with
        ${relationLink('register', naming)}.
      </li>
      <li>
        Redirect a user to ${relationLink('authorize', naming)} with ${code('response_type=code')}, your
        ${code('client_id')}, a ${code('scope')} and a random ${code('state')}. With PKCE, which a client without a
        secret must use and every other should, also send a ${code('code_challenge')} and
        ${code('code_challenge_method=S256')}. The user is redirected to your redirect URI with a code, which is valid
        for 30 seconds.
      </li>
      <li>
        Exchange the code at ${relationLink('token', naming)} for an access token, which is valid for two hours, and a
        refresh token. With PKCE, also send the ${code('code_verifier')}.
      </li>
      <li>Request the home of the API, and follow its links:</li>
    </ol>
    <pre class="copyable">
curl ${homeOf(naming.baseUrl)} \\
  -H '${versionHeader}: 1' \\
  -H 'Authorization: Bearer hal_at_…'</pre>
    ${table(
      'Scopes',
      ['Scope', 'Purpose'],
      Object.entries(scopes).map(([scope, about]) => [code(scope), about]),
    )}
  </div>`;

const requests = ({ versionHeader }: Setting): Markup =>
  html`<section class="card">
    <h2>Every request</h2>
    <ul>
      <li>
        has the header ${code(`${versionHeader}: 1`)}. Without it the response is a 400 with the code
        ${code('version_required')}. Not required for ${code('text/html')}, OPTIONS, this documentation and the
        authorization server.
      </li>
      <li>has the header ${code('Authorization: Bearer …')}; a token in the address or in the body is rejected.</li>
      <li>selects the format of the response with ${code('Accept')}:</li>
    </ul>
    ${table(
      'Formats',
      ['Accept', 'Used by'],
      formats.map(({ mediaTypes, isPage }) => [
        listed(mediaTypes.map(code)),
        isPage ? 'people: pages and forms, with a session' : 'programs',
      ]),
    )}
    <p>
      Request bodies are ${listed(bodyMediaTypes.map(code))}. Unknown properties are rejected; read-only properties,
      links and embedded documents are ignored, so that you can PUT a representation as you received it.
    </p>
  </section>`;

const errors = ({ naming }: Setting): Markup =>
  html`<section class="card">
    <h2>Errors</h2>
    <p>
      All errors have the same structure: ${relationLink('errors', naming)} embeds one entry per fault, with
      ${code('logref')}, ${code('code')}, ${code('message')} and the ${code('field')} at fault. Quote the
      ${code('logref')} when you contact the operator.
    </p>
    ${namedTable('Errors', ['Status', 'Meaning'], Object.entries(ERROR_MEANINGS))}
  </section>`;

const collections = ({ naming }: Setting): Markup =>
  html`<section class="card">
    <h2>Collections</h2>
    <p>
      A page has ${code('total_items')}, ${code('returned_items')}, ${code('limit')} and ${code('offset')}, and always
      the links ${code('first')}, ${code('prev')}, ${code('next')} and ${code('last')}: at the ends ${code('prev')} and
      ${code('next')} lead to the page itself. The header ${code('Link')} omits them there.
    </p>
    <ul>
      <li>${code('?limit=100&offset=200')}: 1 to 300 items, 20 by default</li>
      <li>${code('?order=date_created desc,name')}: sort by these properties</li>
      <li>${code('?fields=name,url')}: return only these properties of the items</li>
      <li>
        ${code('?name=*shop*')}, ${code('?is_active=1')}, ${code('?date_created:greaterthan=2026-11-01')},
        ${code('?name:in=a,b')}, ${code(':not')}, ${code(':lessthan')}, ${code(':greaterthanorequal')},
        ${code(':lessthanorequal')}, ${code(':isnull')}: only matching items
      </li>
      <li>
        ${code('?zoom=items,items:item_options,customer')}: embeds ${relationLink('items', naming)} and their relations
      </li>
    </ul>
    <p>Unknown parameters are rejected with a 400, never ignored.</p>
  </section>`;

const changes = ({ rate, naming }: Setting): Markup =>
  html`<section class="card">
    <h2>Safe changes</h2>
    <ul>
      <li>
        <strong>Conditional:</strong> every GET has an ${code('ETag')}. ${code('If-None-Match')} returns 304 if nothing
        has changed; ${code('If-Match')} on PATCH, PUT, DELETE and other methods that accept it returns 412 if the
        resource was changed meanwhile.
      </li>
      <li>
        <strong>Idempotent:</strong> with an ${code('Idempotency-Key')} a POST that creates a resource creates it once.
        The same key and body get the first response again for 24 hours; another body gets a 422.
      </li>
      <li>
        <strong>PATCH</strong> changes the properties that are sent, <strong>PUT</strong> resets the others to their
        defaults; ${code('null')} and the empty text clear a property. OPTIONS of any address lists its methods.
      </li>
      ${
        rate.requestsPerSecond > 0 &&
        html`<li>
          <strong>Rate limit:</strong> ${rate.requestsPerSecond} requests per second and grant, with bursts of
          ${rate.burstRequests}. ${code('RateLimit')} and ${code('RateLimit-Policy')} contain the current state;
          ${code('Retry-After')} of a 429 is the number of seconds to wait.
        </li>`
      }
      <li>Dates are written ${code('2026-11-20T16:05:03+0000')}, in the time zone of their store.</li>
    </ul>
    <p>OPTIONS documents are described at ${relationLink('options', naming)}.</p>
  </section>`;

const webhooks = ({ naming, webhookHeaderPrefix }: Setting): Markup =>
  html`<section class="card">
    <h2>Webhooks</h2>
    <p>
      Instead of polling, create a ${relationLink('webhook', naming)}: events are sent to you by POST, signed with your
      key in ${code(`${webhookHeaderPrefix}-Webhook-Signature`)} (hex HMAC-SHA256 of the raw body) and
      ${code('webhook-signature')} (Standard Webhooks). ${code(`${webhookHeaderPrefix}-Webhook-Event`)} is the type of
      the event; ${code('webhook-id')} is the same in all retries. Respond with 2xx within 30 seconds.
    </p>
    <p>
      Requests and responses of deliveries are available at ${relationLink('statuses', naming)} and
      ${relationLink('logs', naming)}, see also <a href="${pathOf('/rels/events', naming)}">events</a>. The
      <a href="${pathOf('/docs/events', naming)}">event types</a> have schemas and examples, and
      <a href="${pathOf('/docs/receiving', naming)}">receiving webhooks</a> has programs that verify deliveries.
    </p>
  </section>`;

function guide(setting: Setting): Markup {
  return html`${begin(setting)} ${requests(setting)} ${errors(setting)} ${collections(setting)} ${changes(setting)}
  ${webhooks(setting)}`;
}

/** An address with the relation that leads to it, if any. */
type AddressRow = { path: string; methods: string; title: string; rel: string | undefined };

const addressRows = (
  { relations, endpoints = [] }: Chapter,
  { byRel }: RelationDocs,
  { naming }: Setting,
): AddressRow[] => [
  ...relations.flatMap(({ rel, title }) =>
    (byRel.get(rel)?.addressDocs ?? []).map(({ path, methodDocs }): AddressRow => {
      const methods = methodDocs.map(({ method }) => method).join(', ');
      return { path: templateOf(path), methods, title, rel };
    }),
  ),
  ...endpoints.map(({ address, method, title, rel }): AddressRow => {
    return { path: address.replace(naming.baseUrl, ''), methods: method, title, rel };
  }),
];

/** Returns the relations of an address, with a title if it is only one. */
function relationsCell(addresses: readonly AddressRow[], { naming }: Setting): Markup {
  const links = listed(addresses.flatMap(({ rel }) => (rel === undefined ? [] : [relationLink(rel, naming)])));
  const [only, ...others] = addresses;
  return others.length > 0 ? links : html`${only?.title}<br />${links}`;
}

function chapterCard(chapter: Chapter, relationDocs: RelationDocs, setting: Setting): Markup {
  const byPath = Map.groupBy(addressRows(chapter, relationDocs, setting), ({ path }) => path);
  const rows = [...byPath].map(([path, addresses]) => [
    relationsCell(addresses, setting),
    addresses[0]?.methods ?? '',
    html`<code>${path}</code>`,
  ]);
  return html`<section class="card">
    <h2>${chapter.title}</h2>
    <p>${chapter.about}</p>
    ${rows.length > 0 && table(chapter.title, ['Relation', 'Methods', 'Address'], rows)}
  </section>`;
}

export function docsPage(relationDocs: RelationDocs, setting: Setting, view: View): string {
  return frame({
    title: 'Getting started',
    at: 'docs',
    naming: setting.naming,
    view,
    main: html`${guide(setting)}
      <h2>Addresses</h2>
      <p>
        All addresses begin with <code>${setting.naming.baseUrl}</code>; parameters are in braces. Machine-readable
        description: <a href="${pathOf('/openapi.json', setting.naming)}">OpenAPI 3.1</a>.
      </p>
      ${relationDocs.chapters.map((chapter) => chapterCard(chapter, relationDocs, setting))}`,
  });
}
