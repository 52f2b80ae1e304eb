/** Renders the pages of a change of e-mail address. */
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { emailInput } from '../email-input.ts';
import { accountNav } from '../nav.ts';
import { alertOf, currentPasswordField, described, type FormFault } from '../password/pages.ts';

export function changeEmailPage(view: {
  root: string;
  email: string;
  /** What was entered. */
  newEmail: string;
  nonce: string;
  fault: FormFault | undefined;
}): string {
  const { root, email, newEmail, nonce, fault } = view;
  return shell({
    title: 'Change your e-mail address',
    nav: accountNav(root),
    main: html`<div class="card">
      <h1>Change your e-mail address</h1>
      ${alertOf(fault)}
      <p>
        It is <strong>${email}</strong> now. We will mail the new address a link that makes the change, and this one a
        link that stops it.
      </p>
      <form method="post" action="${root}/account/email">
        <input type="hidden" name="nonce" value="${nonce}" />
        <div class="field">
          <label for="email">New e-mail address</label>
          ${emailInput(newEmail, described('email', fault))}
        </div>
        ${currentPasswordField(fault)}
        <div class="buttons">
          <button type="submit">Send the link</button><a class="button quiet" href="${root}/account">Cancel</a>
        </div>
      </form>
    </div>`,
  });
}

/** Renders the same page whether or not the new address has an account. */
export function emailSentPage(view: { root: string; newEmail: string; lifetimeHours: number }): string {
  return shell({
    title: 'Check your inbox',
    nav: accountNav(view.root),
    main: html`<div class="card">
      <h1>Check your inbox</h1>
      <p class="good" role="status">A mail was sent to <strong>${view.newEmail}</strong>.</p>
      <p>
        Your address changes when you open the link in it. The link is valid for ${view.lifetimeHours} hours. Only the
        latest link works.
      </p>
      <p><a href="${view.root}/account">Your account</a></p>
    </div>`,
  });
}

export function confirmEmailPage(view: { root: string; token: string; newEmail: string; nonce: string }): string {
  const { root, token, newEmail, nonce } = view;
  return shell({
    title: 'Confirm your e-mail address',
    nav: accountNav(root),
    main: html`<div class="card">
      <h1>Confirm your e-mail address</h1>
      <p>From now on you sign in with <strong>${newEmail}</strong>.</p>
      <form method="post" action="${root}/account/email/confirm">
        <input type="hidden" name="nonce" value="${nonce}" />
        <input type="hidden" name="token" value="${token}" />
        <div class="buttons">
          <button type="submit">Change the address</button><a class="button quiet" href="${root}/account">Cancel</a>
        </div>
      </form>
    </div>`,
  });
}

export function undoEmailPage(view: { root: string; token: string; isMade: boolean; oldEmail: string }): string {
  const { root, token, isMade, oldEmail } = view;
  return shell({
    title: 'Keep your e-mail address',
    main: html`<div class="card">
      <h1>Keep your e-mail address</h1>
      <p>
        ${isMade ? html`The account gets <strong>${oldEmail}</strong> back.` : html`<strong>${oldEmail}</strong> stays the address of the account.`}
        All browsers are signed out.
      </p>
      <form method="post" action="${root}/undo-email">
        <input type="hidden" name="token" value="${token}" />
        <div class="buttons"><button type="submit">Keep this address</button></div>
      </form>
    </div>`,
  });
}

export function emailUndonePage(view: { root: string; oldEmail: string }): string {
  return shell({
    title: 'Address kept',
    main: html`<div class="card">
      <h1>Address kept</h1>
      <p class="good" role="status">
        The address of the account is <strong>${view.oldEmail}</strong>, and all browsers are signed out.
      </p>
      <p>
        If you did not request the change, another person knows your password: choose a new one, and disconnect all apps
        with it.
      </p>
      <p><a class="button" href="${view.root}/forgot-password">Choose a new password</a></p>
    </div>`,
  });
}

type Notice = { title: string; message: string };

export const INVALID_LINK: Notice = {
  title: 'Link not valid',
  message: 'The link was already used, has expired, belongs to another account, or was replaced by a newer one.',
};
export const TAKEN: Notice = {
  title: 'Address in use',
  message: 'Another account has this e-mail address. Nothing was changed.',
};
export const NO_MAIL: Notice = {
  title: 'Change your e-mail address',
  message: 'This service does not send mail, so it cannot verify a new address. Ask its operator.',
};

export function emailNoticePage(root: string, { title, message }: Notice): string {
  return shell({
    title,
    main: html`<div class="card">
      <h1>${title}</h1>
      <p class="alert" role="alert">${message}</p>
      <p><a href="${root}/account">Your account</a></p>
    </div>`,
  });
}
