/** Renders the pages of a user's own app: settings, secrets, the key of its webhook, logo and deletion, and a new secret. */
import { stateBadge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import { installPath, listingPath } from './client-document.ts';
import { LOGO_BYTES_MAX, logoImage } from './logo.ts';
import type { Secret } from './client-change.ts';
import { settingsHash } from './client-fields.ts';
import { GRANTS_COUNTED_MAX, type Client, type ClientUsage } from './clients-sql.ts';
import { ownTokenCard } from '../own-token.ts';
import type { AppKeys, KeyChange } from './clients.ts';
import type { ClientView } from './own-clients.ts';
import { appsPage, confidentialFields, pathOf, refusedAlert, settingFields } from './client-form.ts';
import { accountNav, cardPage, choice, nonceField, postForm, type PostForm } from '#identity/accounts/page-kit.ts';

const settings = ({ root, client, values, baseHash, faults, nonce }: ClientView): Markup =>
  html`<div class="card">
    <h2 id="settings">Settings</h2>
    ${refusedAlert(faults.filter(({ field }) => field !== 'logo'))}
    ${postForm({
      action: pathOf(root, client.clientId),
      hidden: { nonce: nonce('change client'), saw: baseHash ?? settingsHash(client) },
      fields: settingFields(values, faults, !client.isPublic && confidentialFields(values)),
      submit: 'Save',
    })}
  </div>`;

const secretEntry = ({ dateCreated, dateExpires }: Secret): Markup =>
  html`<li>
    Created ${shownDate(dateCreated)},
    ${dateExpires === null ? 'valid until you replace it' : html`expires ${shownDate(dateExpires)}`}
  </li>`;

const endOlder = ({ root, client, secrets: { length }, nonce }: ClientView): Markup =>
  postForm({
    action: `${pathOf(root, client.clientId)}/end-older-secret`,
    hidden: { nonce: nonce('end older secret') },
    submit: `Expire the older ${length > 2 ? 'secrets' : 'secret'} now`,
    style: 'quiet danger',
  });

function secrets(view: ClientView): Markup {
  const { root, client, nonce, overlapHours } = view;
  const replacing = view.secrets[0]?.fingerprint ?? '';
  return html`<div class="card">
    <h2 id="secret">Client secret</h2>
    <ul>
      ${view.secrets.map(secretEntry)}
    </ul>
    ${view.secrets.length > 1 && endOlder(view)}
    ${postForm({
      action: `${pathOf(root, client.clientId)}/secret`,
      hidden: { nonce: nonce('rotate secret', replacing), replacing },
      fields: choice({
        name: 'at_once',
        label: 'Expire all older secrets immediately',
        hint: `Choose this if a secret has leaked. Otherwise the current secret stays valid for ${overlapHours} hours.`,
      }),
      submit: 'Create a new secret',
    })}
  </div>`;
}

function logo({ root, client, faults, nonce }: ClientView): Markup {
  const fault = faults.find(({ field }) => field === 'logo');
  const described = `logo-hint${fault === undefined ? '' : ' logo-fault'}`;
  return html`<div class="card">
    <h2 id="logo-card">Logo</h2>
    <form method="post" action="${pathOf(root, client.clientId)}/logo" enctype="multipart/form-data">
      ${nonceField(nonce('set logo'))}
      <div class="field">
        <label for="logo">Picture</label>
        <input
          type="file"
          id="logo"
          name="logo"
          accept="image/png,image/jpeg,image/webp,image/gif"
          required
          aria-describedby="${described}"
          ${fault !== undefined && html`aria-invalid="true"`}
        />
        <p class="soft" id="logo-hint">PNG, JPEG, WebP or GIF, at most ${LOGO_BYTES_MAX / 1024} KiB.</p>
        ${fault !== undefined && html`<p class="fault" id="logo-fault">${fault.message}.</p>`}
      </div>
      <div class="buttons"><button type="submit">Upload</button></div>
    </form>
    ${
      client.logoDate !== null &&
      postForm({
        action: `${pathOf(root, client.clientId)}/remove-logo`,
        hidden: { nonce: nonce('remove logo') },
        submit: 'Remove the logo',
        style: 'quiet',
      })
    }
  </div>`;
}

function several(count: number, one: string, more: string): string {
  if (count === 1) return `1 ${one}`;
  return count >= GRANTS_COUNTED_MAX ? `${GRANTS_COUNTED_MAX} ${more} or more` : `${count} ${more}`;
}

/** Returns the numbers of users, stores and accounts that use the app. The users themselves are private. */
function usageText({ people, stores, accounts }: ClientUsage): string {
  if (people === 0) return 'No users yet';
  const places = [
    ...(stores > 0 ? [several(stores, 'store', 'stores')] : []),
    ...(accounts > 0 ? [several(accounts, 'whole account', 'whole accounts')] : []),
  ];
  return `${several(people, 'user', 'users')}, with access to ${places.join(' and ')}`;
}

const heading = ({ root, client, usage, alert, good, installsAddress }: ClientView): Markup =>
  html`<div class="card">
    ${alert !== undefined && html`<p class="alert" role="alert">${alert}.</p>`}
    ${good !== undefined && html`<p class="good" role="status">${good}</p>`}
    ${
      client.suspendedReason !== null &&
      html`<p class="alert" role="alert">
        The operator of this service has suspended this app: ${client.suspendedReason}. Its tokens and secrets are
        refused, and nothing is sent to its webhooks.
      </p>`
    }
    <div class="who">
      ${logoImage(root, client)}
      <h1>${client.name}</h1>
      ${!client.isVerified && stateBadge('unverified')}
    </div>
    ${
      !client.isVerified &&
      html`<p class="soft">The consent page shows that the operator has not verified this app.</p>`
    }
    <dl>
      <dt>Client ID</dt>
      <dd><code>${client.clientId}</code></dd>
      <dt>Kind</dt>
      <dd>${client.isPublic ? 'Public (without a secret)' : 'Confidential (with a secret)'}</dd>
      <dt>${client.isListed ? 'Public page' : 'Preview'}</dt>
      <dd><a href="${listingPath(root, client.clientId)}">${listingPath(root, client.clientId)}</a></dd>
      ${
        client.initiateLoginUri !== null &&
        html`<dt>Install link</dt>
          <dd><a href="${installPath(root, client.clientId)}">${installPath(root, client.clientId)}</a></dd>`
      }
      <dt>Created</dt>
      <dd>${shownDate(client.dateCreated)}</dd>
      <dt>Used by</dt>
      <dd>${usageText(usage)}${usage.people > 0 && html` (<a href="${installsAddress}">all installs</a>)`}</dd>
      <dt>Last used</dt>
      <dd>${usage.lastUsed === null ? 'Never' : shownDate(usage.lastUsed)}</dd>
    </dl>
  </div>`;

/** Leads to the parts of the page, which is long. */
const parts = ({ client, webhookKeys }: ClientView): Markup =>
  html`<nav class="states" aria-label="Parts of the page">
    <a href="#basics">Basics</a>
    <a href="#access">Access</a> ${webhookKeys !== null && html`<a href="#events">Events</a>`}
    ${!client.isPublic && html`<a href="#secret">Secret</a>`} <a href="#tokens">Tokens</a> <a href="#logo-card">Logo</a>
    <a href="#danger">Danger</a>
  </nav>`;

export function clientPage(view: ClientView): string {
  const { root, client } = view;
  return appsPage(
    root,
    client.name,
    html`${heading(view)} ${parts(view)} ${view.shownWebhooks} ${settings(view)} ${webhookKeyCard(view)}
      ${!client.isPublic && secrets(view)} ${ownTokenCard(view)} ${logo(view)}
      <div class="card">
        <h2 id="danger">Danger</h2>
        <p>Deleting the app disconnects all its users.</p>
        <div class="buttons">
          <a class="button quiet danger" href="${pathOf(root, client.clientId)}/delete">Delete this app …</a>
        </div>
      </div>`,
  );
}

export function deletePage({ root, client, nonce }: { root: string; client: Client; nonce: string }): string {
  return cardPage(
    `Delete ${client.name}?`,
    html`<p>
        Its secrets and tokens stop working immediately. If you create another app, its users have to connect again.
        This cannot be undone.
      </p>
      ${postForm({
        action: `${pathOf(root, client.clientId)}/delete`,
        hidden: { nonce },
        submit: 'Delete',
        style: 'danger',
        cancel: { href: pathOf(root, client.clientId) },
      })}`,
    accountNav(root, 'apps'),
  );
}

const shownKey = (summary: string, key: string | null): Markup =>
  key === null
    ? html`<p class="alert">The key cannot be decrypted. Replace it.</p>`
    : html`<details>
        <summary>${summary}</summary>
        <p><code>${key}</code></p>
      </details>`;

const replaceForm = (
  { root, client, nonce }: ClientView,
  change: KeyChange,
  button: Pick<PostForm, 'fields' | 'submit' | 'style'>,
): Markup =>
  postForm({
    action: `${pathOf(root, client.clientId)}/webhook-key`,
    hidden: { nonce: nonce('replace webhook key'), change },
    ...button,
  });

const beginForm = (view: ClientView): Markup =>
  replaceForm(view, 'begin', {
    fields: choice({
      name: 'at_once',
      label: 'Replace the key immediately',
      hint: `Choose this if the key has leaked. Otherwise deliveries are signed with both keys for ${view.keyOverlapHours} hours.`,
    }),
    submit: 'Create a new key',
  });

const rotation = (view: ClientView, { current, next, rotationEndsAt }: AppKeys & { rotationEndsAt: Date }): Markup =>
  html`<p>Deliveries are signed with both keys until ${shownDate(rotationEndsAt)}, then only with the new one.</p>
    ${shownKey('Show the new key', next)} ${shownKey('Show the older key', current)}
    ${replaceForm(view, 'finish', { submit: 'Use only the new key now', style: 'quiet danger' })}`;

const formatted = (count: number): string => count.toLocaleString('en');

const progressText = ({ progress }: ClientView): Markup | false =>
  progress !== undefined &&
  html`<p role="status">
    ${formatted(progress.followed)} of ${formatted(progress.total)} stores have followed the last change.
  </p>`;

/** The keys are valid in all stores, and only this page and the registration of the app show them after the app was created. */
function webhookKeyCard(view: ClientView): Markup | false {
  const { client, webhookKeys: keys } = view;
  if (keys === null) return progressText(view);
  const { rotationEndsAt } = keys;
  return html`<div class="card">
    <h2 id="events">App events</h2>
    <p>
      Events of the app from all stores are sent to <code>${client.webhookUrl}</code>, signed with this key. Each store
      that lets the app in has a webhook for them.
    </p>
    ${
      client.webhookEvents.length > 0 &&
      html`<p>
        So are ${client.webhookEvents.map((event) => html`<code>${event}</code> `)} of the stores that give the app a
        scope for them.
      </p>`
    }
    ${progressText(view)}
    ${
      rotationEndsAt === null
        ? html`${shownKey('Show the key', keys.current)} ${beginForm(view)}`
        : rotation(view, { ...keys, rotationEndsAt })
    }
  </div>`;
}

/** Renders the only page that contains a client secret, which is null for a public client. `note` describes the validity of older secrets. */
export function secretPage(view: {
  root: string;
  title: string;
  clientId: string;
  secret: string | null;
  note?: string;
}): string {
  const { root, clientId, secret, note } = view;
  return cardPage(
    view.title,
    html`${
        secret !== null &&
        html`<p class="good" role="status">
          Copy the client secret now and store it where only your app can read it. It is shown only once.
        </p>`
      }
      <dl>
        <dt>Client ID</dt>
        <dd><code>${clientId}</code></dd>
        ${
          secret !== null &&
          html`<dt>Client secret</dt>
            <dd><code>${secret}</code></dd>`
        }
      </dl>
      ${secret === null && html`<p>A public app has no secret and uses PKCE instead.</p>`}
      ${note !== undefined && html`<p>${note}</p>`}
      <div class="buttons"><a class="button quiet" href="${pathOf(root, clientId)}">Open the app's page</a></div>`,
    accountNav(root, 'apps'),
  );
}
