/** Renders the consent page of /authorize: the app, the requested access and the choice of a store. */
import { shortened } from '#core/text.ts';
import { choice } from '#identity/accounts/page-kit.ts';
import { stateBadge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { listingPath } from '../clients/client-document.ts';
import { documentHost } from '../protocol-requests.ts';
import { logoImage } from '../clients/logo.ts';
import { shownHost } from '../redirect-uri.ts';
import { isForStore, permissionTexts } from '../scope.ts';
import type { ConsentRequest, Received } from './authorization-request.ts';
import type { PickableStore } from './authorize-sql.ts';
import { refusals, type Fault } from '../oauth-errors.ts';
import { withoutTokens } from '../oauth-tokens.ts';

/** Characters of the name of an app in the title of the page: a browser's tab shows about as many. */
export const TITLE_CHARACTERS = 30;

export type ConsentView = {
  request: ConsentRequest;
  email: string;
  stores: readonly PickableStore[];
  /** The number of the app's webhooks that were disabled when its access ended, by store. */
  stopped: ReadonlyMap<number, number>;
  /** The limited scopes that were still checked when the form was sent; null if it was not sent yet. */
  checked: readonly string[] | null;
  nonce: string;
  /** The target of the form: this address with the client's parameters. */
  action: string;
  switchUser: string;
  root: string;
  alert: string | undefined;
};

const abilities = {
  store_full_access: [
    'See and change everything in the chosen store: customers, subscriptions, transactions and webhooks',
    "Receive this store's events at its own URLs",
  ],
  user_full_access: [
    'See your account and do everything you can in all your stores: customers, subscriptions, transactions and webhooks',
    "Receive these stores' events at its own URLs",
  ],
} as const;

const OTHER_STORES = 'Access your other stores';
const SIGN_IN = 'See your password, or change how you sign in';

const limits = {
  store_full_access: [OTHER_STORES, SIGN_IN],
  user_full_access: [
    'See your password, or change your e-mail address or how you sign in',
    'See the secrets of your apps',
  ],
} as const;

/** The approximate number of stores visible in the list without scrolling. */
const UNSCROLLED_STORES = 5;

/** Isolates a name chosen by a third party, so that it cannot change the direction of the surrounding text. */
export function isolated(text: string): Markup {
  return html`<bdi>${text}</bdi>`;
}

const storeChoice = ({ id, name, domain }: PickableStore, isChosen: boolean): Markup =>
  choice({
    name: 'store',
    value: id,
    isRadio: true,
    isRequired: true,
    isChecked: isChosen,
    label: isolated(name),
    hint: domain,
  });

const otherStore = ({ request, switchUser }: ConsentView): Markup =>
  html`<p class="alert" role="alert">
    ${isolated(request.client.name)} asks for another store than yours. Choose one of your stores only if you want to
    connect it instead, or <a href="${switchUser}">sign in with another account</a>.
  </p>`;

/**
 * Renders the choice of a store. A single store is preselected; of several, the one that the client requested, which is also
 * listed first, because a long list scrolls. If the user has no access to the requested one, none is preselected.
 */
function picker(view: ConsentView): Markup {
  const { request, stores } = view;
  const { storeId } = request.scope;
  const isOther = storeId !== undefined && !stores.some(({ id }) => id === storeId);
  const preselected = storeId === undefined && stores.length === 1 ? stores[0]?.id : storeId;
  const [first, rest] = [stores.filter(({ id }) => id === preselected), stores.filter(({ id }) => id !== preselected)];
  return html`<fieldset>
    <legend>Which store?</legend>
    ${isOther && otherStore(view)}
    ${stores.length > UNSCROLLED_STORES && html`<p class="soft">${stores.length} stores; scroll to see all.</p>`}
    <div class="choices many">
      ${first.map((store) => storeChoice(store, true))} ${rest.map((store) => storeChoice(store, false))}
    </div>
  </fieldset>`;
}

const webhooks = (count: number): string => (count === 1 ? '1 webhook' : `${count} webhooks`);

/**
 * Renders the option to enable disabled webhooks. It is unchecked by default, because their URLs were chosen under the
 * access that ended.
 */
function resumption({ request, stores, stopped }: ConsentView): Markup {
  const names = stores.flatMap(({ id, name }) =>
    stopped.has(id) ? [html`${isolated(name)}: ${webhooks(stopped.get(id) ?? 0)}`] : [],
  );
  const total = stopped.values().reduce((sum, count) => sum + count, 0);
  return choice({
    name: 'resume',
    label: html`Enable the webhooks of ${isolated(request.client.name)} that were disabled when its access ended`,
    hint: names.length > 1 ? html`${names.map((name) => html`${name}. `)}` : webhooks(total),
  });
}

const needsStore = ({ request }: ConsentView): boolean => isForStore(request.scope);

const isPossible = (view: ConsentView): boolean => !needsStore(view) || view.stores.length > 0;

const noStore = ({ request, switchUser }: ConsentView): Markup =>
  html`<p class="alert" role="alert">
    You have no store to connect with ${isolated(request.client.name)}. Ask a store's owner to make you a member, or
    <a href="${switchUser}">sign in with another account</a>.
  </p>`;

/** Returns what the requested scope permits and does not permit. Several limited scopes are chosen in the form. */
function powersOf({
  scope,
  permissions,
}: ConsentRequest['scope']): [can: readonly string[], cannot: readonly string[]] {
  if (scope !== 'store_limited') return [abilities[scope], limits[scope]];
  const [only, ...others] = permissions ?? [];
  const can = only === undefined || others.length > 0 ? 'Do what you choose below' : permissionTexts().get(only);
  const change = permissions?.includes('webhooks') === true ? 'Change anything but webhooks' : 'Change anything';
  return [[can ?? ''], [change, OTHER_STORES, SIGN_IN]];
}

function powers({ request }: ConsentView): Markup {
  const [can, cannot] = powersOf(request.scope);
  const ends = request.own?.ends;
  return html`<h2>If you allow access, this app can</h2>
    <ul>
      ${can.map((ability) => html`<li>${ability}</li>`)}
      <li>Keep this access until ${ends && html`${shownDate(ends)}, or until`} you disconnect the app</li>
    </ul>
    <h2>It cannot</h2>
    <ul>
      ${cannot.map((limit) => html`<li>${limit}</li>`)}
    </ul>`;
}

/** Renders the choice of limited scopes, if there are several. All are checked at first: the app asked for all. */
function permissionChoice({ request, checked }: ConsentView): Markup | null {
  const { permissions } = request.scope;
  if (permissions === null || permissions.length === 1) return null;
  const texts = permissionTexts();
  return html`<fieldset>
    <legend>What may it do in the store?</legend>
    <p class="soft">Clear what you do not want to allow. Parts of the app may then not work.</p>
    <div class="choices">
      ${permissions.map((name) =>
        choice({
          name: 'permission',
          value: name,
          isChecked: checked?.includes(name) !== false,
          label: texts.get(name) ?? name,
        }),
      )}
    </div>
  </fieldset>`;
}

const decision = (view: ConsentView): Markup =>
  html`<form method="post" action="${view.action}">
    <input type="hidden" name="nonce" value="${view.nonce}" />
    ${isPossible(view) && permissionChoice(view)} ${needsStore(view) && isPossible(view) && picker(view)}
    ${isPossible(view) && view.stopped.size > 0 && resumption(view)}
    <div class="buttons">
      ${isPossible(view) && html`<button type="submit" name="decision" value="allow">Allow</button>`}
      <button type="submit" name="decision" value="deny" class="quiet" formnovalidate>Deny</button>
    </div>
  </form>`;

const UNVERIFIED = html`<p>
  ${stateBadge('unverified')} The operator has not verified this app. Continue only if you were just using it and know
  the address that it sends you to.
</p>`;

const OWN = html`<p>This is your own app. When you have allowed access, the page shows you its tokens, once.</p>`;

const comparison = (userCode: string): Markup =>
  html`<p class="alert">
    Continue only if you have just started this yourself, and your device shows the code <strong>${userCode}</strong>. A
    code that another person has sent you gives that person access.
  </p>`;

/**
 * Warns if a program on the person's device gets the code: any program can name the address of another app's document, and only a redirect
 * to a host of the app shows that it is the app (Model Context Protocol, Authorization, "Localhost Redirect URI Risks").
 */
const impersonable = (host: string): Markup =>
  html`<p class="alert" role="note">
    A program on this device asks for access, and any program can say that it is the app of <strong>${host}</strong>.
    Continue only if you have just started it yourself.
  </p>`;

const destination = (redirectUri: string): Markup =>
  html`<dt>Sends you to</dt>
    <dd><strong>${shownHost(redirectUri)}</strong></dd>`;

function facts({ request, email, switchUser, root }: ConsentView): Markup {
  const { redirectUri } = request;
  const { company, clientId, isListed } = request.client;
  return html`<dl>
    ${
      company !== null &&
      html`<dt>Made by</dt>
        <dd>${isolated(company)}</dd>`
    }
    ${redirectUri !== null && destination(redirectUri)}
    ${
      isListed &&
      html`<dt>About the app</dt>
        <dd><a href="${listingPath(root, clientId)}">Its page</a></dd>`
    }
    <dt>Signed in as</dt>
    <dd>${email} (<a href="${switchUser}">switch account</a>)</dd>
  </dl>`;
}

export function consentPage(view: ConsentView): string {
  const { client, own, redirectUri } = view.request;
  const host = documentHost(client.clientId);
  return shell({
    title: `Allow ${shortened(client.name, TITLE_CHARACTERS)} access?`,
    main: html`<div class="card">
      <div class="who">
        ${logoImage(view.root, client)}
        <h1>Allow ${isolated(client.name)} access?</h1>
      </div>
      ${host !== undefined && html`<p>An app of <strong>${host}</strong></p>`}
      ${view.alert !== undefined && html`<p class="alert" role="alert">${view.alert}</p>`}
      ${view.request.device !== undefined && comparison(view.request.device.userCode)}
      ${!isPossible(view) && noStore(view)}
      ${client.description !== null && html`<p>${isolated(client.description)}</p>`} ${own !== undefined && OWN}
      ${!client.isVerified && own === undefined && UNVERIFIED}
      ${host !== undefined && redirectUri?.startsWith('https:') === false && impersonable(host)} ${facts(view)}
      ${isPossible(view) && powers(view)} ${decision(view)}
    </div>`,
  });
}

const SHOWN_CHARACTERS = 200;

/**
 * Returns the text for display: shortened, with invisible characters replaced, and without tokens. An app may send its
 * secret as its id, and users are asked to forward this page to the developer.
 */
function shown(text: string): string {
  return shortened(withoutTokens(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD'), SHOWN_CHARACTERS);
}

const entry = (term: string, value: Markup): Markup =>
  html`<dt>${term}</dt>
    <dd>${value}</dd>`;

const value = (text: string | undefined): Markup =>
  text === undefined ? html`none` : html`<code>${shown(text)}</code>`;

function difference({ client, redirectUri }: Received): Markup | null {
  const registered = client?.redirectUris ?? [];
  if (registered.length === 0) return html`<p>No redirect_uri is registered for this client.</p>`;
  if (redirectUri === undefined)
    return html`<p>Several addresses are registered for this client, so the redirect_uri is required.</p>`;
  const parts = differenceToNearest(redirectUri, registered);
  return html`<p>Difference from the nearest registered address: <strong>${parts.join(', ')}</strong>.</p>`;
}

const rule = ({ client }: Received): Markup =>
  html`<p class="soft">
    It must be exactly a registered
    address.${client?.isPublic === true && ' Only the port of http://127.0.0.1 and http://[::1] may differ.'}
  </p>`;

const registeredList = ({ client }: Received): Markup =>
  html`<p>Registered addresses (shown only to the owner of this app):</p>
    <ul>
      ${client?.redirectUris.map((uri) => html`<li><code>${uri}</code></li>`)}
    </ul>`;

/**
 * Renders the error page of /authorize for a redirect address that is not verified to be the client's. It shows the received values and
 * how they differ from the registration; only the client's owner sees the registered addresses.
 */
export function refusalPage(view: { fault: Fault; received: Received; isOwner: boolean }): string {
  const { fault, received, isOwner } = view;
  const isMismatch = fault === refusals.redirectUriMismatch;
  return shell({
    title: 'Invalid authorization request',
    main: html`<div class="card">
        <h1>Invalid authorization request</h1>
        <p class="alert" role="alert">${fault.description}.</p>
        <p>
          The app that sent you here made a mistake, or its link was changed. Nothing was shared with the app. You can
          close this page, and report the details below to the app's developer.
        </p>
      </div>
      <div class="card">
        <h2>For the app's developer</h2>
        <dl>
          ${entry('Error', value(fault.error))} ${entry('client_id', value(received.clientId))}
          ${entry('redirect_uri', value(received.redirectUri))}
        </dl>
        ${isMismatch && html`${difference(received)} ${rule(received)} ${isOwner && registeredList(received)}`}
      </div>`,
  });
}

/** RFC 3986 Appendix B, with the authority split. Not a URL parser, which would normalize differences away. */
const PARTS = /^(?:([^:/?#]+):)?(?:\/\/(?:([^/?#]*)@)?([^/?#]*?)(?::([0-9]*))?(?=[/?#]|$))?([^?#]*)(\?[^#]*)?(#.*)?$/s;

type Parts = Readonly<Record<'scheme' | 'user-info' | 'host' | 'port' | 'path' | 'query' | 'fragment', string>>;

function partsOf(uri: string): Parts {
  const [, scheme = '', user = '', host = '', port = '', path = '', query = '', fragment = ''] = PARTS.exec(uri) ?? [];
  return { scheme, 'user-info': user, host, port, path, query, fragment };
}

function differenceOf(name: keyof Parts, received: string, registered: string): string {
  if (received.toLowerCase() === registered.toLowerCase()) return `upper and lower case in the ${name}`;
  if (name === 'path' && (`${received}/` === registered || received === `${registered}/`))
    return 'a slash at the end of the path';
  return `the ${name}`;
}

function differences(received: string, registered: string): string[] {
  const [one, other] = [partsOf(received), partsOf(registered)];
  const names = Object.keys(one) as (keyof Parts)[];
  const different = names.filter((name) => one[name] !== other[name]);
  // Equal parts, but a different spelling, such as a colon without a port.
  if (different.length === 0) return ['the spelling'];
  return different.map((name) => differenceOf(name, one[name], other[name]));
}

/** Ranks a different host as farther away than any other difference. */
const distance = (different: readonly string[]): number => different.length + (different.includes('the host') ? 10 : 0);

/** Returns the names of the differing parts, such as `the path`; empty if no address is registered. */
export function differenceToNearest(received: string, registered: readonly string[]): string[] {
  return registered.map((uri) => differences(received, uri)).toSorted((a, b) => distance(a) - distance(b))[0] ?? [];
}
