/** Renders the pages of the erasure of an account, and its mail. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { Mail } from '#mail/mail.ts';
import { accountNav } from '../nav.ts';
import { alertOf, currentPasswordField, usernameField, type FormFault } from '../password/pages.ts';

type View = {
  root: string;
  email: string;
  /** The names of the stores of which the person is the only owner. */
  stores: readonly string[];
  nonce: string;
  fault: FormFault | undefined;
};

const refusal = (stores: readonly string[]): Markup =>
  html`<p class="alert" role="alert">You are the only owner of these stores:</p>
    <ul>
      ${stores.map((name) => html`<li>${name}</li>`)}
    </ul>
    <p>Make another member an owner, or erase the store, before you erase your account.</p>`;

const form = ({ root, email, nonce, fault }: View): Markup =>
  html`${alertOf(fault)}
    <p>
      This erases the account <strong>${email}</strong> with its memberships, connected apps, browsers, your own apps
      and your sandbox store, at once and for good. Other stores and their data stay. The activity stays for a year,
      without your name and address.
    </p>
    <form method="post" action="${root}/account/erase">
      <input type="hidden" name="nonce" value="${nonce}" />
      ${usernameField(email)} ${currentPasswordField(fault)}
      <div class="buttons">
        <button type="submit" class="danger">Erase the account</button>
        <a class="button quiet" href="${root}/account">Cancel</a>
      </div>
    </form>`;

export function erasePage(view: View): string {
  return shell({
    title: 'Erase your account',
    nav: accountNav(view.root),
    main: html`<div class="card">
      <h1>Erase your account</h1>
      ${view.stores.length > 0 ? refusal(view.stores) : form(view)}
      ${view.stores.length > 0 && html`<p><a href="${view.root}/account">Your account</a></p>`}
    </div>`,
  });
}

export function erasedPage(root: string): string {
  return shell({
    title: 'Account erased',
    main: html`<div class="card">
      <h1>Account erased</h1>
      <p class="good" role="status">Your account is erased, and all browsers and apps have lost their access.</p>
      <p><a href="${root}/sign-in">Sign in with another account</a></p>
    </div>`,
  });
}

export function erasedMail({ to, authUrl }: { to: string; authUrl: string }): Mail {
  return {
    to,
    subject: 'Your account was erased',
    text: [
      'Hello,',
      '',
      `your account at ${new URL(authUrl).host} was erased, as requested on its page with your password.`,
      'If it was not you, ask the operator of the service.',
      '',
    ].join('\n'),
  };
}
