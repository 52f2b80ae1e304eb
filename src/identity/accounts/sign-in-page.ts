/** Renders the sign-in page. */
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from './email-input.ts';
import { verificationForm } from './factors/verification-form.ts';

const alertId = 'sign-in-alert';

const returnField = (returnTo: string | undefined) =>
  returnTo !== undefined && html`<input type="hidden" name="return_to" value="${returnTo}" />`;

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
}): string {
  const described = view.alert !== undefined && html`aria-invalid="true" aria-describedby="${alertId}"`;
  return shell({
    title: 'Sign in',
    scripts: view.passkeyScripts,
    main: html`<div class="card">
      <h1>Sign in</h1>
      ${view.alert !== undefined && html`<p class="alert" role="alert" id="${alertId}">${view.alert}</p>`}
      <form method="post" action="${view.root}/sign-in">
        ${returnField(view.returnTo)}
        <label for="email">E-mail</label>
        ${emailInput(view.email, described, 'username webauthn')}
        <label for="password">Password</label>
        <input type="password" id="password" name="password" autocomplete="current-password" required ${described} />
        <div class="buttons"><button type="submit">Sign in</button></div>
      </form>
      <form method="post" action="${view.root}/sign-in/passkey">
        ${returnField(view.returnTo)}
        <input type="hidden" name="${VERIFICATION_FIELDS.passkey}" />
        <p class="buttons" data-passkey-get="${view.passkeyOptions}" data-passkey-autofill hidden>
          <button type="submit" class="quiet">Use a passkey</button>
        </p>
      </form>
      <p><a href="${view.root}/forgot-password">Forgot your password?</a></p>
      ${view.allowsSignUp && html`<p>New here? <a href="${view.root}/sign-up">Create an account</a></p>`}
    </div>`,
  });
}

/** Renders the page that asks for the second factor, after the password. `pending` is the signed state between both. */
export function secondFactorPage(view: {
  root: string;
  returnTo: string | undefined;
  email: string;
  pending: string;
  hasApp: boolean;
  passkeyOptions: string | undefined;
  passkeyScripts: Markup;
  alert: string | undefined;
}): string {
  const { root, returnTo, email, pending, hasApp, passkeyOptions, alert } = view;
  return shell({
    title: 'Second step of the sign-in',
    scripts: view.passkeyScripts,
    main: html`<div class="card">
      <h1>Second step</h1>
      <p>Signing in as <strong>${email}</strong>.</p>
      ${verificationForm({
        action: `${root}/sign-in/second-factor`,
        fields: html`${returnField(returnTo)}<input type="hidden" name="pending" value="${pending}" />`,
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
