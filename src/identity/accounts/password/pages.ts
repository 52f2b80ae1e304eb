/** Renders the pages for changing and resetting a password. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from '../email-input.ts';
import { accountNav } from '../nav.ts';
import { passwordLengthMin } from '../users.ts';

/** An error message and the form field it belongs to. */
export type FormFault = { field: 'email' | 'current' | 'password'; message: string };

const alertId = 'form-alert';
const hintId = 'password-hint';

/** Renders the error message of a form, if it has one. */
export function alertOf(fault: FormFault | undefined): Markup | undefined {
  return fault && html`<p class="alert" role="alert" id="${alertId}">${fault.message}</p>`;
}

/** Returns the ARIA attributes that connect a field with its hint and its error message. */
export function described(field: FormFault['field'], fault: FormFault | undefined, hint = ''): Markup {
  const isWrong = fault?.field === field;
  const ids = [hint, isWrong ? alertId : ''].filter((id) => id !== '').join(' ');
  return html`${isWrong && html`aria-invalid="true"`} ${ids !== '' && html`aria-describedby="${ids}"`}`;
}

/**
 * Returns a hidden field that is not submitted: password managers read from it to which account the new password
 * belongs.
 */
export function usernameField(email: string): Markup {
  return html`<input type="text" value="${email}" autocomplete="username" readonly hidden />`;
}

/** The fault of a wrong current password. */
export const WRONG_PASSWORD: FormFault = { field: 'current', message: 'The current password is wrong.' };

/** Renders the field of the password that the person has. */
export function currentPasswordField(fault: FormFault | undefined): Markup {
  return html`<div class="field">
    <label for="current">Current password</label>
    <input
      type="password"
      id="current"
      name="current"
      autocomplete="current-password"
      required
      ${described('current', fault)}
    />
  </div>`;
}

/** Renders the field of a password that the person chooses. */
export function newPasswordField(
  label: string,
  fault: FormFault | undefined,
  { hasSecondFactor }: { hasSecondFactor: boolean } = { hasSecondFactor: false },
): Markup {
  return html`<div class="field">
    <label for="password">${label}</label>
    <input
      type="password"
      id="password"
      name="password"
      autocomplete="new-password"
      required
      ${described('password', fault, hintId)}
    />
    <p class="soft" id="${hintId}">
      At least ${passwordLengthMin({ hasSecondFactor })} characters, for example a few words that you use nowhere else.
    </p>
  </div>`;
}

type NewPasswordView = { fault: FormFault | undefined; hasSecondFactor: boolean };

const newPassword = (view: NewPasswordView): Markup =>
  html`${newPasswordField('New password', view.fault, view)}
    <label class="choice">
      <input type="checkbox" name="end_grants" value="1" />
      <span>
        Also disconnect all connected apps
        <span class="soft">
          Connected apps keep their access when the password changes. Select this if another person may have connected
          one.
        </span>
      </span>
    </label>`;

export function changePage(view: NewPasswordView & { root: string; email: string; nonce: string }): string {
  return shell({
    title: 'Change your password',
    nav: accountNav(view.root),
    main: html`<div class="card">
      <h1>Change your password</h1>
      ${alertOf(view.fault)}
      <p>For <strong>${view.email}</strong>. All other browsers are signed out.</p>
      <form method="post" action="${view.root}/account/password">
        <input type="hidden" name="nonce" value="${view.nonce}" />
        ${usernameField(view.email)} ${currentPasswordField(view.fault)} ${newPassword(view)}
        <div class="buttons">
          <button type="submit">Change password</button><a class="button quiet" href="${view.root}/account">Cancel</a>
        </div>
      </form>
    </div>`,
  });
}

export function resetPage(view: NewPasswordView & { root: string; email: string; token: string }): string {
  return shell({
    title: 'Choose a new password',
    main: html`<div class="card">
      <h1>Choose a new password</h1>
      ${alertOf(view.fault)}
      <p>For <strong>${view.email}</strong>. All browsers are signed out.</p>
      <form method="post" action="${view.root}/reset-password">
        <input type="hidden" name="token" value="${view.token}" />
        ${usernameField(view.email)} ${newPassword(view)}
        <div class="buttons"><button type="submit">Save and sign in</button></div>
      </form>
    </div>`,
  });
}

export function invalidLinkPage(root: string): string {
  return shell({
    title: 'Link not valid',
    main: html`<div class="card">
      <h1>Link not valid</h1>
      <p class="alert" role="alert">The link was already used, has expired, or was replaced by newer ones.</p>
      <p><a href="${root}/forgot-password">Request another link</a></p>
    </div>`,
  });
}

export function forgotPage(view: { root: string; email: string; fault: FormFault | undefined }): string {
  return shell({
    title: 'Forgot your password?',
    main: html`<div class="card">
      <h1>Forgot your password?</h1>
      ${alertOf(view.fault)}
      <p>We will mail you a link for choosing a new one.</p>
      <form method="post" action="${view.root}/forgot-password">
        <label for="email">E-mail</label>
        ${emailInput(view.email, described('email', view.fault))}
        <div class="buttons"><button type="submit">Send the link</button></div>
      </form>
      <p><a href="${view.root}/sign-in">Back to sign-in</a></p>
    </div>`,
  });
}

/** Renders the same page whether or not the address has an account. */
export function sentPage(view: { root: string; email: string; lifetimeMinutes: number }): string {
  return shell({
    title: 'Check your inbox',
    main: html`<div class="card">
      <h1>Check your inbox</h1>
      <p class="good" role="status">
        If <strong>${view.email}</strong> has an account here, a mail has been sent to it.
      </p>
      <p>
        The link is valid for ${view.lifetimeMinutes} minutes and can be used once. If no mail arrives, check your spam
        folder, and whether you signed up with another address.
      </p>
      <p><a href="${view.root}/sign-in">Back to sign-in</a></p>
    </div>`,
  });
}

export function noMailPage(root: string): string {
  return shell({
    title: 'Forgot your password?',
    main: html`<div class="card">
      <h1>Forgot your password?</h1>
      <p>This service does not send mail. Ask its operator for a reset link.</p>
      <p><a href="${root}/sign-in">Back to sign-in</a></p>
    </div>`,
  });
}
