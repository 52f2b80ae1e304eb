/** Renders the form in which a person proves who they are: with a passkey, a code, or the password. */
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { postForm, usernameField } from '../page-kit.ts';

const alertId = 'verification-alert';

const described = (alert: string | undefined): Markup =>
  html`${alert !== undefined && html`aria-invalid="true" aria-describedby="${alertId}"`}`;

const codeField = (hasApp: boolean, alert: string | undefined): Markup =>
  html`<div class="field">
    <label for="code">${hasApp ? 'Code of your authenticator app, or a recovery code' : 'Recovery code'}</label>
    <input
      type="text"
      id="code"
      name="${VERIFICATION_FIELDS.code}"
      autocomplete="one-time-code"
      autocapitalize="none"
      spellcheck="false"
      maxlength="60"
      required
      ${described(alert)}
    />
  </div>`;

const passwordField = (email: string, alert: string | undefined): Markup =>
  html`${usernameField(email)}
    <div class="field">
      <label for="password">Password</label>
      <input
        type="password"
        id="password"
        name="${VERIFICATION_FIELDS.password}"
        autocomplete="current-password"
        required
        ${described(alert)}
      />
    </div>`;

/**
 * `fields` are hidden inputs of the form. `factors` is undefined for a person without a second factor, who enters the password.
 * `passkeyOptions` is the JSON for `navigator.credentials.get`; the button needs a script, which shows it.
 */
export function verificationForm(view: {
  action: string;
  fields: Markup;
  email: string;
  factors: { hasApp: boolean; passkeyOptions: string | undefined } | undefined;
  alert: string | undefined;
  submit: string;
  cancel: { href: string; label: string };
}): Markup {
  const { action, email, factors, alert, submit, cancel } = view;
  const passkey =
    factors?.passkeyOptions !== undefined &&
    html`<input type="hidden" name="${VERIFICATION_FIELDS.passkey}" />
      <p class="buttons" data-passkey-get="${factors.passkeyOptions}" hidden>
        <button type="button">Use a passkey</button>
      </p>`;
  const field = factors === undefined ? passwordField(email, alert) : codeField(factors.hasApp, alert);
  return html`${alert !== undefined && html`<p class="alert" role="alert" id="${alertId}">${alert}</p>`}
  ${postForm({ action, fields: html`${view.fields} ${passkey} ${field}`, submit, cancel })}`;
}
