/**
 * The page of /authorize where nothing says that the redirect address is the client's. It tells a person that nothing
 * was shared, and a developer what was received and where it differs. What is registered only the client's owner sees.
 */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { refusals, type Fault } from '../errors.ts';
import { withoutTokens } from '../tokens.ts';
import type { Received } from './authorization-request.ts';
import { differenceToNearest } from './difference.ts';

const SHOWN_CHARACTERS = 200;

/**
 * Shortened, with a mark where there is a character that would not be seen or would move the others. An app that sends its
 * secret where its id belongs sends it with everybody, and they are asked to pass this page on: it is not on it.
 */
const shown = (text: string): string => {
  const characters = Array.from(withoutTokens(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD'));
  return characters.length <= SHOWN_CHARACTERS
    ? characters.join('')
    : `${characters.slice(0, SHOWN_CHARACTERS).join('')}…`;
};

const entry = (term: string, value: Markup): Markup =>
  html`<dt>${term}</dt>
    <dd>${value}</dd>`;

const value = (text: string | undefined): Markup =>
  text === undefined ? html`none` : html`<code>${shown(text)}</code>`;

/** Only where it was the address that was refused. */
const difference = ({ client, redirectUri }: Received): Markup | null => {
  const registered = client?.redirectUris ?? [];
  if (registered.length === 0) return html`<p>No redirect_uri is registered for this client.</p>`;
  if (redirectUri === undefined)
    return html`<p>Several addresses are registered for this client, so it must send the redirect_uri.</p>`;
  const parts = differenceToNearest(redirectUri, registered);
  return html`<p>What differs from the nearest registered address: <strong>${parts.join(', ')}</strong>.</p>`;
};

const rule = ({ client }: Received): Markup =>
  html`<p class="soft">
    It must be a registered address, octet for
    octet.${client?.isPublic === true && ' Of http://127.0.0.1 and http://[::1] the port may vary.'}
  </p>`;

const registeredList = ({ client }: Received): Markup =>
  html`<p>Registered, which you see as the owner of this app:</p>
    <ul>
      ${client?.redirectUris.map((uri) => html`<li><code>${uri}</code></li>`)}
    </ul>`;

export const refusalPage = (view: { fault: Fault; received: Received; isOwner: boolean }): string => {
  const { fault, received, isOwner } = view;
  const isMismatch = fault === refusals.redirectUriMismatch;
  return shell({
    title: 'This request cannot be used',
    main: html`<div class="card">
        <h1>This request cannot be used</h1>
        <p class="alert" role="alert">${fault.description}.</p>
        <p>
          The app that sent you here made a mistake, or something changed its link on the way. Nothing was shared with
          it. You can close this page, and tell the app's makers what stands below.
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
};
