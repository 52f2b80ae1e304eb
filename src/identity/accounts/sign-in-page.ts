/** Renders the sign-in page. */
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from './page-kit.ts';
import { IDENTITY_FIELD } from './external/verified-identity.ts';
import { verificationForm } from './factors/verification-form.ts';

const alertId = 'sign-in-alert';

const returnField = (returnTo: string | undefined) =>
  returnTo !== undefined && html`<input type="hidden" name="return_to" value="${returnTo}" />`;

const identityField = (token: string | undefined) =>
  token !== undefined && html`<input type="hidden" name="${IDENTITY_FIELD}" value="${token}" />`;

/** An identity of a provider that is linked to the account by this sign-in; `token` is the signed field. */
type Linking = { provider: string; token: string };

const linkingNotice = (root: string, { provider }: Linking): Markup =>
  html`<p class="good" role="status">
      There is an account with the address that ${provider} has for you. Sign in to it once as before, to link
      ${provider}: from then on you can sign in with ${provider}.
    </p>
    <p><a href="${root}/sign-in">Sign in without linking ${provider}</a></p>`;

const providerForm = (root: string, provider: string, returnTo: string | undefined): Markup =>
  html`<form method="post" action="${root}/sign-in/with/${provider}">
    ${returnField(returnTo)}
    <p class="buttons"><button type="submit" class="quiet">Sign in with ${provider}</button></p>
  </form>`;

/**
 * `root` is the path prefix of the pages, without a trailing slash. `passkeyOptions` is the JSON for `navigator.credentials.get`: a
 * script offers passkeys in the field of the address and shows a button.
 */
export function signInPage(view: {
  root: string;
  returnTo: string | undefined;
  email: string;
  alert: string | undefined;
  passkeyOptions: string;
  passkeyScripts: Markup;
  /** Whether people may create accounts themselves. */
  allowsSignUp: boolean;
  /** The names of the OpenID providers. */
  providers: readonly string[];
  linking: Linking | undefined;
}): string {
  const { root, returnTo, providers, linking } = view;
  const fields = html`${returnField(returnTo)}${identityField(linking?.token)}`;
  const described = view.alert !== undefined && html`aria-invalid="true" aria-describedby="${alertId}"`;
  return shell({
    title: 'Sign in',
    scripts: view.passkeyScripts,
    main: html`<div class="card">
      <h1>Sign in</h1>
      ${view.alert !== undefined && html`<p class="alert" role="alert" id="${alertId}">${view.alert}</p>`}
      ${linking !== undefined && linkingNotice(root, linking)}
      <form method="post" action="${root}/sign-in">
        ${fields}
        <label for="email">E-mail</label>
        ${emailInput(view.email, described, 'username webauthn')}
        <label for="password">Password</label>
        <input type="password" id="password" name="password" autocomplete="current-password" required ${described} />
        <div class="buttons"><button type="submit">Sign in</button></div>
      </form>
      <form method="post" action="${root}/sign-in/passkey">
        ${fields}
        <input type="hidden" name="${VERIFICATION_FIELDS.passkey}" />
        <p class="buttons" data-passkey-get="${view.passkeyOptions}" data-passkey-autofill hidden>
          <button type="submit" class="quiet">Use a passkey</button>
        </p>
      </form>
      ${linking === undefined && providers.map((provider) => providerForm(root, provider, returnTo))}
      <p><a href="${root}/forgot-password">Forgot your password?</a></p>
      ${view.allowsSignUp && html`<p>New here? <a href="${root}/sign-up">Create an account</a></p>`}
    </div>`,
  });
}

/** Renders the page that asks for the second factor, after the password. `pending` is the signed state between both. */
export function secondFactorPage(view: {
  root: string;
  returnTo: string | undefined;
  /** The signed field of an identity with which the person signs in. */
  identity: string | undefined;
  email: string;
  pending: string;
  hasApp: boolean;
  passkeyOptions: string | undefined;
  passkeyScripts: Markup;
  alert: string | undefined;
}): string {
  const { root, returnTo, email, pending, hasApp, passkeyOptions, alert } = view;
  const carried = html`${returnField(returnTo)}${identityField(view.identity)}`;
  return shell({
    title: 'Second step of the sign-in',
    scripts: view.passkeyScripts,
    main: html`<div class="card">
      <h1>Second step</h1>
      <p>Signing in as <strong>${email}</strong>.</p>
      ${verificationForm({
        action: `${root}/sign-in/second-factor`,
        fields: html`${carried}<input type="hidden" name="pending" value="${pending}" />`,
        email,
        factors: { hasApp, passkeyOptions },
        alert,
        submit: 'Sign in',
        cancel: { href: `${root}/sign-in`, label: 'Start again' },
      })}
      <p class="soft">
        Without your passkeys, app and recovery codes, only the operator of this service can let you in again.
      </p>
    </div>`,
  });
}
