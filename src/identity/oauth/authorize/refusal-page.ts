/**
 * Renders the error page of /authorize for a redirect address that is not verified to be the client's. It shows the
 * received values and how they differ from the registration; only the client's owner sees the registered addresses.
 */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { refusals, type Fault } from '../oauth-errors.ts';
import { withoutTokens } from '../oauth-tokens.ts';
import type { Received } from './authorization-request.ts';

const SHOWN_CHARACTERS = 200;

/**
 * Returns the text for display: shortened, with invisible characters replaced, and without tokens. An app may send its
 * secret as its id, and users are asked to forward this page to the developer.
 */
function shown(text: string): string {
  const characters = Array.from(withoutTokens(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD'));
  return characters.length <= SHOWN_CHARACTERS
    ? characters.join('')
    : `${characters.slice(0, SHOWN_CHARACTERS).join('')}…`;
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
