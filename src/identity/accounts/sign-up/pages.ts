/** Renders the pages of signing up. */
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from '../email-input.ts';
import { alertOf, described, newPasswordField, usernameField, type FormFault } from '../password/pages.ts';

export function signUpPage(view: { root: string; email: string; fault: FormFault | undefined }): string {
  return shell({
    title: 'Create an account',
    main: html`<div class="card">
      <h1>Create an account</h1>
      ${alertOf(view.fault)}
      <p>We will mail you a link. Choose your password there.</p>
      <form method="post" action="${view.root}/sign-up">
        <label for="email">E-mail</label>
        ${emailInput(view.email, described('email', view.fault))}
        <div class="buttons"><button type="submit">Send the link</button></div>
      </form>
      <p><a href="${view.root}/sign-in">Sign in to an existing account</a></p>
    </div>`,
  });
}

/** Renders the same page whether or not the address has an account. */
export function signUpSentPage(view: { root: string; email: string; lifetimeMinutes: number; again: string }): string {
  return shell({
    title: 'Check your inbox',
    main: html`<div class="card">
      <h1>Check your inbox</h1>
      <p class="good" role="status">A mail was sent to <strong>${view.email}</strong>.</p>
      <p>
        The link in it is valid for ${view.lifetimeMinutes} minutes and can be used once. If no mail arrives, check your
        spam folder and the address.
      </p>
      <p><a href="${view.again}">Enter another address</a></p>
    </div>`,
  });
}

export function newAccountPage(view: {
  root: string;
  token: string;
  email: string;
  fault: FormFault | undefined;
}): string {
  const { root, token, email, fault } = view;
  return shell({
    title: 'Choose a password',
    main: html`<div class="card">
      <h1>Choose a password</h1>
      ${alertOf(fault)}
      <p>Your account has the e-mail address <strong>${email}</strong>.</p>
      <form method="post" action="${root}/sign-up/confirm">
        <input type="hidden" name="token" value="${token}" />
        ${usernameField(email)} ${newPasswordField('Password', fault)}
        <div class="buttons"><button type="submit">Create the account</button></div>
      </form>
    </div>`,
  });
}

/** `again`: the address where another link is requested. */
export function invalidSignUpPage(again: string): string {
  return shell({
    title: 'Link not valid',
    main: html`<div class="card">
      <h1>Link not valid</h1>
      <p class="alert" role="alert">The link was already used, has expired, or was replaced by newer ones.</p>
      <p><a href="${again}">Request another link</a></p>
    </div>`,
  });
}

export function existingAccountPage(root: string): string {
  return shell({
    title: 'Account exists',
    main: html`<div class="card">
      <h1>Account exists</h1>
      <p class="alert" role="alert">There is an account with this e-mail address already.</p>
      <p><a class="button" href="${root}/sign-in">Sign in</a></p>
    </div>`,
  });
}
