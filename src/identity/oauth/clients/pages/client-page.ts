/** The page of one of a person's own apps, as text: its settings, secrets, logo, and the way to delete it. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDate } from '#hypermedia/shown-date.ts';
import type { Fault } from '#core/problem.ts';
import { LOGO_BYTES_MAX, logoImage } from '../logo/logo.ts';
import { settingsMark } from '../change.ts';
import { GRANTS_COUNTED_MAX, type Client, type Reach } from '../clients-sql.ts';
import type { Secret } from '../secrets/secrets.ts';
import { detailFields, refusedAlert, rotationField, type Typed } from './form.ts';
import { appsPage, nonceField, pathOf } from './visit.ts';

export type ClientView = {
  root: string;
  client: Client;
  secrets: readonly Secret[];
  reach: Reach;
  overlapHours: number;
  typed: Typed;
  /** Which settings were seen by whoever typed these; the present ones where absent. */
  saw?: string | undefined;
  faults: readonly Fault[];
  alert?: string | undefined;
  good?: string | undefined;
  nonce: (form: string, ...rest: readonly string[]) => string;
};

const settings = ({ root, client, typed, saw, faults, nonce }: ClientView): Markup =>
  html`<div class="card">
    <h2>Settings</h2>
    ${refusedAlert(faults.filter(({ field }) => field !== 'logo'))}
    <form method="post" action="${pathOf(root, client.clientId)}">
      ${nonceField(nonce('change client'))}
      <input type="hidden" name="saw" value="${saw ?? settingsMark(client)}" />
      ${detailFields(typed, faults)} ${!client.isPublic && rotationField(typed)}
      <div class="buttons"><button type="submit">Save</button></div>
    </form>
  </div>`;

const secretEntry = ({ dateCreated, dateExpires }: Secret): Markup =>
  html`<li>
    Made ${shownDate(dateCreated)},
    ${dateExpires === null ? 'counts until you replace it' : html`ends ${shownDate(dateExpires)}`}
  </li>`;

const endOlder = ({ root, client, secrets: { length }, nonce }: ClientView): Markup =>
  html`<form method="post" action="${pathOf(root, client.clientId)}/end-older-secret">
    ${nonceField(nonce('end older secret'))}
    <div class="buttons">
      <button type="submit" class="quiet danger">End the older ${length > 2 ? 'ones' : 'one'} now</button>
    </div>
  </form>`;

const secrets = (view: ClientView): Markup => {
  const { root, client, nonce, overlapHours } = view;
  const replacing = view.secrets[0]?.mark ?? '';
  return html`<div class="card">
    <h2>Client secret</h2>
    <ul>
      ${view.secrets.map(secretEntry)}
    </ul>
    ${view.secrets.length > 1 && endOlder(view)}
    <form method="post" action="${pathOf(root, client.clientId)}/secret">
      ${nonceField(nonce('rotate secret', replacing))}<input type="hidden" name="replacing" value="${replacing}" />
      <label class="choice">
        <input type="checkbox" name="at_once" value="1" />
        <span>
          End the old one at once, and all before it
          <span class="soft">For one that somebody else has seen. Else it goes on for ${overlapHours} hours.</span>
        </span>
      </label>
      <div class="buttons"><button type="submit">Make a new secret</button></div>
    </form>
  </div>`;
};

const logo = ({ root, client, faults, nonce }: ClientView): Markup => {
  const fault = faults.find(({ field }) => field === 'logo');
  const described = `logo-hint${fault === undefined ? '' : ' logo-fault'}`;
  return html`<div class="card">
    <h2>Logo</h2>
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
      html`<form method="post" action="${pathOf(root, client.clientId)}/remove-logo">
        ${nonceField(nonce('remove logo'))}
        <div class="buttons"><button type="submit" class="quiet">Remove the logo</button></div>
      </form>`
    }
  </div>`;
};

const several = (count: number, one: string, more: string): string => {
  if (count === 1) return `1 ${one}`;
  return count >= GRANTS_COUNTED_MAX ? `${GRANTS_COUNTED_MAX} ${more} or more` : `${count} ${more}`;
};

/** Who has let it in: numbers, as who they are is theirs. */
const reachText = ({ people, stores, accounts }: Reach): string => {
  if (people === 0) return 'Nobody yet';
  const places = [
    ...(stores > 0 ? [several(stores, 'store', 'stores')] : []),
    ...(accounts > 0 ? [several(accounts, 'whole account', 'whole accounts')] : []),
  ];
  return `${several(people, 'person', 'people')}, to work in ${places.join(' and ')}`;
};

const heading = ({ root, client, reach, alert, good }: ClientView): Markup =>
  html`<div class="card">
    ${alert !== undefined && html`<p class="alert" role="alert">${alert}.</p>`}
    ${good !== undefined && html`<p class="good" role="status">${good}</p>`}
    <div class="who">
      ${logoImage(root, client)}
      <h1>${client.name}</h1>
      ${!client.isVerified && html`<span class="badge">Unverified</span>`}
    </div>
    ${
      !client.isVerified &&
      html`<p class="soft">Whoever is asked for access reads that nobody has looked at this app yet.</p>`
    }
    <dl>
      <dt>Client ID</dt>
      <dd><code>${client.clientId}</code></dd>
      <dt>Kind</dt>
      <dd>${client.isPublic ? 'Public: it has no secret' : 'Confidential: it has a secret'}</dd>
      <dt>Made</dt>
      <dd>${shownDate(client.dateCreated)}</dd>
      <dt>Let in by</dt>
      <dd>${reachText(reach)}</dd>
      <dt>Last used</dt>
      <dd>${reach.lastUsed === null ? 'Never' : shownDate(reach.lastUsed)}</dd>
    </dl>
  </div>`;

export const clientPage = (view: ClientView): string => {
  const { root, client } = view;
  return appsPage(
    root,
    client.name,
    html`${heading(view)} ${settings(view)} ${!client.isPublic && secrets(view)} ${logo(view)}
      <div class="card">
        <h2>Delete</h2>
        <p>Everybody's connection to the app ends with it.</p>
        <div class="buttons">
          <a class="button quiet danger" href="${pathOf(root, client.clientId)}/delete">Delete this app …</a>
        </div>
      </div>`,
  );
};

export const deletePage = ({ root, client, nonce }: { root: string; client: Client; nonce: string }): string =>
  appsPage(
    root,
    `Delete ${client.name}?`,
    html`<div class="card">
      <h1>Delete ${client.name}?</h1>
      <p>
        Its secrets and tokens stop working at once, and everybody who let it in has to do so anew should you make
        another one. This cannot be undone.
      </p>
      <form method="post" action="${pathOf(root, client.clientId)}/delete">
        ${nonceField(nonce)}
        <div class="buttons">
          <button type="submit" class="danger">Delete</button>
          <a class="button quiet" href="${pathOf(root, client.clientId)}">Keep it</a>
        </div>
      </form>
    </div>`,
  );
