/** The pages of a new password, as text. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from '../email-input.ts';
import { accountNav } from '../nav.ts';
import { PASSWORD_LENGTH_MIN } from '../users.ts';

/** What is wrong, and with which field. */
export type FormFault = { field: 'email' | 'current' | 'password'; message: string };

const alertId = 'form-alert';
const hintId = 'password-hint';

const alertOf = (fault: FormFault | undefined): Markup | undefined =>
  fault && html`<p class="alert" role="alert" id="${alertId}">${fault.message}</p>`;

/** The attributes by which a field says what is wrong with it, beside what is always said of it. */
const described = (field: FormFault['field'], fault: FormFault | undefined, hint = ''): Markup => {
  const isWrong = fault?.field === field;
  const ids = [hint, isWrong ? alertId : ''].filter((id) => id !== '').join(' ');
  return html`${isWrong && html`aria-invalid="true"`} ${ids !== '' && html`aria-describedby="${ids}"`}`;
};

/** Nobody sees or sends it: without it a password manager does not know whose entry the new password belongs to. */
const whose = (email: string): Markup =>
  html`<input type="text" value="${email}" autocomplete="username" readonly hidden />`;

const newPassword = (fault: FormFault | undefined): Markup =>
  html`<div class="field">
      <label for="password">New password</label>
      <input
        type="password"
        id="password"
        name="password"
        autocomplete="new-password"
        required
        ${described('password', fault, hintId)}
      />
      <p class="soft" id="${hintId}">
        At least ${PASSWORD_LENGTH_MIN} characters. A few words that you have used nowhere else are a good one.
      </p>
    </div>
    <label class="choice">
      <input type="checkbox" name="end_grants" value="1" />
      <span>
        Also disconnect all connected apps
        <span class="soft">
          Apps that you let in keep their access when the password changes. Tick this if somebody else may have let one
          in.
        </span>
      </span>
    </label>`;

export const changePage = (view: {
  root: string;
  email: string;
  nonce: string;
  fault: FormFault | undefined;
}): string =>
  shell({
    title: 'Change your password',
    nav: accountNav(view.root),
    main: html`<div class="card">
      <h1>Change your password</h1>
      ${alertOf(view.fault)}
      <p>For <strong>${view.email}</strong>. Every other browser that is signed in will have to sign in again.</p>
      <form method="post" action="${view.root}/account/password">
        <input type="hidden" name="nonce" value="${view.nonce}" />
        ${whose(view.email)}
        <div class="field">
          <label for="current">Current password</label>
          <input
            type="password"
            id="current"
            name="current"
            autocomplete="current-password"
            required
            ${described('current', view.fault)}
          />
        </div>
        ${newPassword(view.fault)}
        <div class="buttons">
          <button type="submit">Change password</button><a class="button quiet" href="${view.root}/account">Cancel</a>
        </div>
      </form>
    </div>`,
  });

export const resetPage = (view: { root: string; email: string; token: string; fault: FormFault | undefined }): string =>
  shell({
    title: 'Choose a new password',
    main: html`<div class="card">
      <h1>Choose a new password</h1>
      ${alertOf(view.fault)}
      <p>For <strong>${view.email}</strong>. Every browser that is signed in will have to sign in again.</p>
      <form method="post" action="${view.root}/reset-password">
        <input type="hidden" name="token" value="${view.token}" />
        ${whose(view.email)} ${newPassword(view.fault)}
        <div class="buttons"><button type="submit">Save and sign in</button></div>
      </form>
    </div>`,
  });

export const deadLinkPage = (root: string): string =>
  shell({
    title: 'This link does not work',
    main: html`<div class="card">
      <h1>This link does not work</h1>
      <p class="alert" role="alert">It was used already, it is too old, or newer ones have taken its place.</p>
      <p><a href="${root}/forgot-password">Ask for another one</a></p>
    </div>`,
  });

export const forgotPage = (view: { root: string; email: string; fault: FormFault | undefined }): string =>
  shell({
    title: 'Forgot your password?',
    main: html`<div class="card">
      <h1>Forgot your password?</h1>
      ${alertOf(view.fault)}
      <p>We send you a link by which you choose a new one.</p>
      <form method="post" action="${view.root}/forgot-password">
        <label for="email">E-mail</label>
        ${emailInput(view.email, described('email', view.fault))}
        <div class="buttons"><button type="submit">Send the link</button></div>
      </form>
      <p><a href="${view.root}/sign-in">Back to signing in</a></p>
    </div>`,
  });

/** The same for an address that has an account and for one that has none. */
export const sentPage = (view: { root: string; email: string; lifetimeMinutes: number }): string =>
  shell({
    title: 'Look into your mailbox',
    main: html`<div class="card">
      <h1>Look into your mailbox</h1>
      <p class="good" role="status">
        If <strong>${view.email}</strong> has an account here, a mail is on its way to it.
      </p>
      <p>
        The link in it works for ${view.lifetimeMinutes} minutes, and once. If nothing comes, look among the junk, and
        whether you signed up with another address.
      </p>
      <p><a href="${view.root}/sign-in">Back to signing in</a></p>
    </div>`,
  });

export const noMailPage = (root: string): string =>
  shell({
    title: 'Forgot your password?',
    main: html`<div class="card">
      <h1>Forgot your password?</h1>
      <p>This service sends no mail. Ask whoever operates it for a link by which you choose a new password.</p>
      <p><a href="${root}/sign-in">Back to signing in</a></p>
    </div>`,
  });
