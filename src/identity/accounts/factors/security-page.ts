/** Renders the page of sign-in settings: passkeys, authenticator app and recovery codes. */
import type { SecurityView } from './security.ts';
import { renderSVG } from 'uqr';
import { constant, html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { accountNav, cardPage, nonceField, postForm } from '../page-kit.ts';
import type { PasskeyRow } from './factors-sql.ts';
import { PASSKEY_NAME_LENGTH_MAX, PASSKEYS_MAX, hasSecondFactor } from './second-factor.ts';

export const REGISTRATION_FIELD = 'registration';

const DONE: Readonly<Record<string, string>> = {
  passkey: 'Passkey added.',
  renamed: 'Passkey renamed.',
  removed: 'Passkey removed.',
  app: 'Authenticator app set up.',
  'app-removed': 'Authenticator app removed.',
  unlinked: 'Provider unlinked.',
};

const REQUIRING = { service: 'This service', store: 'The store', role: 'The role of operator' } as const;

const day = (date: Date): string => date.toISOString().slice(0, 10);

const removal = (action: string, nonce: string, submit: string): Markup =>
  postForm({ action, hidden: { nonce }, submit, style: 'danger' });

const passkeyRow = ({ root, nonce }: SecurityView, passkey: PasskeyRow): Markup => {
  const { id, name, dateCreated, dateUsed } = passkey;
  const at = `${root}/account/security/passkeys/${id}`;
  return html`<li>
    <p>
      <strong>${name}</strong>
      <span class="soft">added ${day(dateCreated)}, ${dateUsed === null ? 'never used' : `used ${day(dateUsed)}`}</span>
    </p>
    ${postForm({
      action: `${at}/rename`,
      hidden: { nonce: nonce(['passkey', id, 'rename']) },
      fields: html`<label for="name-${id}">New name</label>
        <input
          type="text"
          id="name-${id}"
          name="name"
          value="${name}"
          maxlength="${PASSKEY_NAME_LENGTH_MAX}"
          required
        />`,
      submit: 'Rename',
      style: 'quiet',
    })}
    ${removal(`${at}/remove`, nonce(['passkey', id, 'remove']), `Remove ${name}`)}
  </li>`;
};

const passkeyCard = (view: SecurityView): Markup => {
  const { root, factors, nonce, creationOptions } = view;
  const isFull = factors.passkeys.length >= PASSKEYS_MAX;
  return html`<div class="card">
    <h2>Passkeys</h2>
    <p>
      Sign in with the fingerprint, face or PIN of a device, or with a security key, instead of your password.
      ${factors.passkeys.length > 0 && 'After your password, a passkey is also a second factor.'}
    </p>
    ${
      factors.passkeys.length > 0 &&
      html`<ul>
        ${factors.passkeys.map((passkey) => passkeyRow(view, passkey))}
      </ul>`
    }
    ${
      isFull
        ? html`<p>You have ${PASSKEYS_MAX} passkeys, the most that an account can have.</p>`
        : html`<form
              method="post"
              action="${root}/account/security/passkeys"
              data-passkey-create="${creationOptions}"
              hidden
            >
              ${nonceField(nonce(['passkeys', 'add']))}
              <input type="hidden" name="${REGISTRATION_FIELD}" />
              <label for="passkey-name">Name, such as the device</label>
              <input type="text" id="passkey-name" name="name" maxlength="${PASSKEY_NAME_LENGTH_MAX}" required />
              <div class="buttons"><button type="submit">Add a passkey</button></div>
            </form>
            <p class="soft" data-passkey-missing>
              To add a passkey, open this page over https in a browser with JavaScript.
            </p>`
    }
  </div>`;
};

const appCard = ({ root, factors, nonce }: SecurityView): Markup =>
  html`<div class="card">
    <h2>Authenticator app</h2>
    <p>
      ${
        factors.hasApp
          ? 'After your password, you enter a code of your app.'
          : 'An app on your phone shows a code that you enter after your password. It works in every browser.'
      }
    </p>
    <div class="buttons">
      <a class="button${factors.hasApp ? ' quiet' : ''}" href="${root}/account/security/app"
        >${factors.hasApp ? 'Set up another app' : 'Set up an app'}</a
      >
    </div>
    ${factors.hasApp && removal(`${root}/account/security/app/remove`, nonce(['app', 'remove']), 'Remove the app')}
  </div>`;

const codesCard = ({ root, factors: { recoveryCodes: left }, nonce }: SecurityView): Markup =>
  html`<div class="card">
    <h2>Recovery codes</h2>
    <p>Each of them replaces a lost device once. You have ${left} left.</p>
    <details class="fold" ${left === 0 && html`open`}>
      <summary>Make new codes …</summary>
      ${left > 0 && html`<p>The ${left === 1 ? 'code that you have stops' : `${left} codes that you have stop`} working at once.</p>`}
      ${postForm({
        action: `${root}/account/security/recovery-codes`,
        hidden: { nonce: nonce(['recovery-codes']) },
        submit: 'Make new codes',
        ...(left > 0 && { style: 'danger' }),
      })}
    </details>
  </div>`;

/** Only for a person with linked providers: an account is linked by signing in with a provider. */
const providersCard = ({ root, identities, providerOf, nonce }: SecurityView): Markup =>
  html`<div class="card">
    <h2>Sign-in with other accounts</h2>
    <ul>
      ${identities.map(
        ({ id, issuer, dateCreated, dateUsed }) =>
          html`<li>
            <p>
              <strong>${providerOf(issuer)}</strong>
              <span class="soft">linked ${day(dateCreated)}, used ${day(dateUsed)}</span>
            </p>
            ${removal(
              `${root}/account/security/providers/${id}/unlink`,
              nonce(['provider', id, 'unlink']),
              `Unlink ${providerOf(issuer)}`,
            )}
          </li>`,
      )}
    </ul>
  </div>`;

export function securityPage(view: SecurityView): string {
  const { root, factors, requiredBy, done, alert, passkeyScripts } = view;
  const sentence = done === null ? undefined : DONE[done];
  return shell({
    title: 'Sign-in settings',
    wide: true,
    nav: accountNav(root),
    scripts: passkeyScripts,
    main: html`<h1>Sign-in settings</h1>
      ${sentence !== undefined && html`<p class="good" role="status">${sentence}</p>`}
      ${alert !== undefined && html`<p class="alert" role="alert">${alert}</p>`}
      ${
        requiredBy !== undefined &&
        html`<p class="alert" role="alert">
          ${REQUIRING[requiredBy]} requires a second factor. Add a passkey or set up an authenticator app to continue.
        </p>`
      }
      ${passkeyCard(view)} ${appCard(view)} ${hasSecondFactor(factors) && codesCard(view)}
      ${view.identities.length > 0 && providersCard(view)}
      <p>
        Lost a device? Remove its passkey, and sign out your other browsers on the page of
        <a href="${root}/account">your account</a>.
      </p>`,
  });
}

/** Renders the page with the secret of a new authenticator app. `address` is the `otpauth:` URI of the QR code. */
export function appPage(view: {
  root: string;
  secret: string;
  address: string;
  nonce: string;
  alert: string | undefined;
}): string {
  const { root, secret, address, nonce, alert } = view;
  const described = alert !== undefined && html`aria-invalid="true" aria-describedby="app-alert"`;
  return cardPage(
    'Set up an authenticator app',
    html`${alert !== undefined && html`<p class="alert" role="alert" id="app-alert">${alert}</p>`}
      <ol>
        <li>
          <p>Scan this picture with your app, or enter the key.</p>
          <div role="img" aria-label="QR code with the key">
            ${constant(renderSVG(address, { border: 4, pixelSize: 5 }))}
          </div>
          <p>Key: <code>${secret.match(/.{4}/g)?.join(' ')}</code></p>
          <p><a href="${address}">Open the app on this device</a></p>
        </li>
        <li><p>Enter the code that the app shows.</p></li>
      </ol>
      ${postForm({
        action: `${root}/account/security/app`,
        hidden: { nonce, secret },
        fields: html`<div class="field">
          <label for="code">Code</label>
          <input
            type="text"
            id="code"
            name="code"
            inputmode="numeric"
            autocomplete="one-time-code"
            maxlength="10"
            required
            ${described}
          />
        </div>`,
        submit: 'Set up',
        cancel: { href: `${root}/account/security` },
      })}`,
    accountNav(root),
  );
}

/** Renders new recovery codes, which are never shown again. The file is an address of its own, because the page has no script that copies. */
export function recoveryCodesPage(root: string, codes: readonly string[]): string {
  const file = `data:text/plain,${encodeURIComponent(codes.map((code) => `${code}\n`).join(''))}`;
  return cardPage(
    'Recovery codes',
    html`<p class="good" role="status">Saved. These are your recovery codes; earlier ones are no longer valid.</p>
      <p>Download, copy or print them now: they are not shown again. Each replaces a lost device once.</p>
      <ul class="codes">
        ${codes.map((code) => html`<li><code>${code}</code></li>`)}
      </ul>
      <p class="soft">A click selects all codes, to copy them.</p>
      <div class="buttons">
        <a class="button" href="${file}" download="recovery-codes.txt">Download</a>
        <a class="button quiet" href="${root}/account/security">I have saved them</a>
      </div>`,
    accountNav(root),
  );
}
