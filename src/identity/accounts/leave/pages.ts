/** Renders the pages of the erasure of an account, and its mail. */
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import type { Mail } from '#mail/mail.ts';
import { accountNav } from '../nav.ts';
import type { SoleStore } from './leave-sql.ts';
import { alertOf, currentPasswordField, usernameField, type FormFault } from '../password/pages.ts';

type View = {
  root: string;
  email: string;
  /** The stores of which the person is the only owner. */
  stores: readonly SoleStore[];
  baseUrl: string;
  nonce: string;
  fault: FormFault | undefined;
};

const refusal = ({ stores, baseUrl }: View): Markup =>
  html`<p class="alert" role="alert">You are the only owner of these stores, which need one:</p>
    <ul>
      ${stores.map(
        ({ id, name, hasMembers }) =>
          html`<li>
            <strong>${name}</strong>:
            ${
              hasMembers
                ? html`make <a href="${new URL(`${baseUrl}/stores/${id}/members`).pathname}">another member</a> an owner`
                : html`<a href="${new URL(`${baseUrl}/stores/${id}/members`).pathname}">invite</a> another owner, or ask
                    the operator of this service to erase the store`
            }
          </li>`,
      )}
    </ul>
    <p>You can erase your account then.</p>`;

const form = ({ root, email, nonce, fault }: View): Markup =>
  html`${alertOf(fault)}
    <p>
      This erases the account <strong>${email}</strong> with its memberships, connected apps, browsers, your own apps
      and your sandbox store, at once and for good. Other stores and their data stay. The activity stays for a year: it
      has the network addresses and browsers, but not your e-mail address.
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
      ${view.stores.length > 0 ? refusal(view) : form(view)}
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
