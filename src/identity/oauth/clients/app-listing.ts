/**
 * The public page of an app, GET /apps/<client_id>, and the link that installs it, GET /apps/<client_id>/install. Neither changes
 * anything, and what they show does not depend on the visitor, except that the developer sees a preview.
 */
import { accountNav, cardPage } from '#identity/accounts/page-kit.ts';
import type { Session, Sessions } from '#identity/accounts/sessions.ts';
import type { Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { shortened } from '#core/text.ts';
import { badge, stateBadge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { parseId } from '#core/ids.ts';
import { invalid, invalidValue, notFound, Problem } from '#core/problem.ts';
import { isolated, TITLE_CHARACTERS } from '../authorize/consent-page.ts';
import { refusals } from '../oauth-errors.ts';
import { shownHost, withParameters } from '../redirect-uri.ts';
import { FULL_SCOPES, scopeTexts } from '../scope.ts';
import { findClient, type Client } from './clients-sql.ts';
import { installPath } from './client-document.ts';
import { logoImage } from './logo.ts';
import { clientIdOf, pathOf } from './client-form.ts';

/** Search engines keep only the pages that the developer has published, of apps that the operator has verified. */
const NOT_INDEXED = { headers: { 'X-Robots-Tag': 'noindex' } };

const eventsThatItReceives = ({ webhookEvents }: Client): Markup =>
  html`<h2>Events that it receives</h2>
    <p>
      The app receives <code>app/installed</code>, <code>app/scopes_changed</code>, <code>app/uninstalled</code> and
      <code>app/store_erased</code> of every store that lets it in.
    </p>
    ${
      webhookEvents.length > 0 &&
      html`<p>
        If you give it a scope for them, it also receives ${webhookEvents.map((event) => html`<code>${event}</code> `)}
      </p>`
    }`;

const link = (href: string, text: string): Markup =>
  html`<li><a href="${href}" rel="nofollow noreferrer">${text}</a> <span class="soft">${shownHost(href)}</span></li>`;

/** Returns the links of the developer, each with its host, because the text alone does not show where it leads. */
function linksOf({ clientUri, policyUri, tosUri }: Client): Markup | null {
  const all = [
    ...(clientUri === null ? [] : [link(clientUri, 'Homepage')]),
    ...(policyUri === null ? [] : [link(policyUri, 'Privacy policy')]),
    ...(tosUri === null ? [] : [link(tosUri, 'Terms')]),
  ];
  return all.length === 0
    ? null
    : html`<h2>Links</h2>
        <ul>
          ${all}
        </ul>`;
}

const heading = (root: string, client: Client, title = isolated(client.name)): Markup =>
  html`<div class="who">
    ${logoImage(root, client)}
    <h1>${title}</h1>
  </div>`;

const preview = (root: string, { clientId }: Client): Markup =>
  html`<p>
    <span class="badge plain">Preview</span> Only you see this page. To publish it, choose <em>Listed</em> in the
    <a href="${pathOf(root, clientId)}">settings of the app</a>.
  </p>`;

const verification = ({ isVerified }: Client): Markup =>
  isVerified
    ? html`<p>${badge('Verified', 'fine')} The operator has verified this app.</p>`
    : html`<p>${stateBadge('unverified')} The operator has not verified this app.</p>`;

const installButton = (root: string, { clientId, initiateLoginUri }: Client): Markup =>
  initiateLoginUri === null
    ? html`<p class="soft">The app has no install link: start on its homepage.</p>`
    : html`<div class="buttons"><a class="button" href="${installPath(root, clientId)}">Install</a></div>`;

function listingPage(root: string, client: Client, session: Session | null): string {
  const texts = scopeTexts();
  return shell({
    title: shortened(client.name, TITLE_CHARACTERS),
    ...(session !== null && { nav: accountNav(root) }),
    main: html`<div class="card">
      ${!client.isListed && preview(root, client)} ${heading(root, client)}
      ${client.description !== null && html`<p>${isolated(client.description)}</p>`}
      ${client.company !== null && html`<p class="soft">Made by ${isolated(client.company)}</p>`}
      ${verification(client)} ${installButton(root, client)}
      <h2>What it may ask for</h2>
      <ul>
        ${(client.scopes ?? FULL_SCOPES).map((scope) => html`<li>${texts.get(scope) ?? scope}</li>`)}
      </ul>
      <p class="soft">You decide when you install it, and can disconnect it at any time.</p>
      ${client.webhookUrl !== null && eventsThatItReceives(client)} ${linksOf(client)}
    </div>`,
  });
}

const noInstallPage = (): string =>
  cardPage(
    'This app has no install link',
    html`<p>Start on the homepage of the app, or ask its developer to enter an install address.</p>`,
  );

/** Renders the page on which a person decides whether to follow the link of an unverified app, which is therefore no open redirect. */
const leavingPage = (root: string, client: Client, target: string): string =>
  shell({
    title: 'Continue to the app?',
    main: html`<div class="card">
      ${heading(root, client, html`Continue to ${isolated(client.name)}?`)}
      <p>
        ${stateBadge('unverified')} The operator has not verified this app. It continues at
        <strong>${shownHost(target)}</strong>.
      </p>
      <div class="buttons"><a class="button" href="${target}" rel="nofollow noreferrer">Continue</a></div>
    </div>`,
  });

/** Returns the client of the address. Throws a 404 if there is none, and a 403 if it is suspended. */
async function clientOf(sql: Sql, request: RawRequest): Promise<Client> {
  const client = await findClient(sql, clientIdOf(request));
  if (client === undefined) throw notFound('app');
  // The reason is for its users and its developer; this page is for everyone.
  if (client.suspendedReason !== null)
    throw new Problem(403, { code: 'app_suspended', message: refusals.suspendedClient.description });
  return client;
}

/** Returns the store of the link. Throws a 400 for a text that cannot be the id of a store. */
function storeIdOf({ query }: RawRequest): string | undefined {
  const text = query.get('store_id') ?? '';
  if (text === '') return undefined;
  const storeId = parseId(text);
  if (storeId !== undefined) return String(storeId);
  throw invalid(invalidValue('store_id', 'store_id must be the id of a store'));
}

/**
 * Creates both handlers. `store_id` of the install link goes to the app as it came, and whether the visitor is signed in or a member of
 * the store is not examined: otherwise an app could find that out about anyone who follows a link.
 */
export function createListing(
  { sql, config: { authUrl } }: Runtime,
  sessions: Sessions,
): Record<'show' | 'install', RawHandler> {
  const root = rootOf(authUrl);
  return {
    show: async (request) => {
      const client = await clientOf(sql, request);
      const session = await sessions.find(request);
      const isOwner = session !== null && !session.mustEnrol && session.userId === client.ownerId;
      if (!client.isListed && !isOwner) throw notFound('app');
      return htmlAnswer(
        200,
        listingPage(root, client, session),
        client.isListed && client.isVerified ? {} : NOT_INDEXED,
      );
    },
    install: async (request) => {
      const client = await clientOf(sql, request);
      const storeId = storeIdOf(request);
      const { initiateLoginUri } = client;
      if (initiateLoginUri === null) return htmlAnswer(404, noInstallPage(), NOT_INDEXED);
      const target = withParameters(initiateLoginUri, { iss: authUrl, store_id: storeId });
      return client.isVerified
        ? redirectAnswer(target)
        : htmlAnswer(200, leavingPage(root, client, target), NOT_INDEXED);
    },
  };
}
