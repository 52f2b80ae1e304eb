/** Renders the pages of an invitation. Only those for a valid link name the store. */
import { emailInput } from '#identity/accounts/email-input.ts';
import { accountNav } from '#identity/accounts/nav.ts';
import {
  alertOf,
  described,
  newPasswordField,
  usernameField,
  type FormFault,
} from '#identity/accounts/password/pages.ts';
import type { OfferedInvitation } from '#stores/invitations/invitations-sql.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';

/** `root` is the path prefix of the pages, without a trailing slash; `token` is the one in the link. */
type Offer = { root: string; token: string; invitation: OfferedInvitation };

const MAY: Readonly<Record<OfferedInvitation['role'], string>> = {
  owner: 'As an owner you can see and change everything in the store, including its members and keys.',
  member: 'As a member you can see and change everything in the store, except its members and keys.',
};

/** Returns the path of the sign-in page that returns to the invitation. */
export function signInPath({ root, token }: Pick<Offer, 'root' | 'token'>): string {
  return `${root}/sign-in?${new URLSearchParams({ return_to: `${root}/invitations/${token}` }).toString()}`;
}

const intro = ({ invitation: { role, storeName } }: Offer): Markup =>
  html`<h1>Join ${storeName}</h1>
    <p>You are invited to this store. ${MAY[role]}</p>`;

/** Renders the page for a signed-in person. */
export function acceptPage(offer: Offer & { email: string; nonce: string }): string {
  const { root, token, email, nonce } = offer;
  return shell({
    title: 'Invitation',
    nav: accountNav(root),
    main: html`<div class="card">
      ${intro(offer)}
      <form method="post" action="${root}/invitations/${token}">
        <input type="hidden" name="nonce" value="${nonce}" />
        <p>You are signed in as <strong>${email}</strong>.</p>
        <div class="buttons">
          <button type="submit">Join the store</button>
          <a class="button quiet" href="${signInPath(offer)}">Use another account</a>
        </div>
      </form>
    </div>`,
  });
}

/**
 * Renders the page for a visitor without a session: sign in, or create an account. `email` is what was entered or verified. `ask`: with
 * `email` the person gets a mail, whose link has the token `proof` and asks for the password.
 */
export function newPersonPage(
  offer: Offer & {
    email: string;
    ask: 'email' | 'password' | 'both';
    proof?: string | undefined;
    fault: FormFault | undefined;
  },
): string {
  const { root, token, invitation, email, ask, proof, fault } = offer;
  const isFixed = ask === 'password' || invitation.email !== null;
  return shell({
    title: 'Invitation',
    main: html`<div class="card">
        ${intro(offer)}
        <p>Do you have an account here already?</p>
        <p><a class="button" href="${signInPath(offer)}">Sign in and join</a></p>
      </div>
      <div class="card">
        <h2>New here?</h2>
        ${alertOf(fault)}
        <form method="post" action="${root}/invitations/${token}">
          ${proof !== undefined && html`<input type="hidden" name="token" value="${proof}" />`}
          ${
            isFixed
              ? html`<p>Your account gets the e-mail address <strong>${email}</strong>.</p>
                  ${usernameField(email)}`
              : html`<label for="email">E-mail</label> ${emailInput(email, described('email', fault))}`
          }
          ${
            ask === 'email'
              ? html`<p>We will mail you a link. Choose your password there.</p>
                  <div class="buttons"><button type="submit" class="quiet">Send the link</button></div>`
              : html`${newPasswordField('Password', fault)}
                  <div class="buttons"><button type="submit" class="quiet">Create an account and join</button></div>`
          }
        </form>
      </div>`,
  });
}

/** Renders the page of a link that leads to no valid invitation, without saying why. */
export function invalidInvitationPage(root: string): string {
  return shell({
    title: 'Invitation not valid',
    main: html`<div class="card">
      <h1>Invitation not valid</h1>
      <p class="alert" role="alert">The link was already used, was revoked, or has expired.</p>
      <p>Ask the person who invited you for another one.</p>
      <p><a href="${root}/account">Your account</a></p>
    </div>`,
  });
}

type Notice = { title: string; message: string; action: { href: string; label: string } | undefined };

function noticePage(root: string, { title, message, action }: Notice): string {
  return shell({
    title,
    nav: accountNav(root),
    main: html`<div class="card">
      <h1>${title}</h1>
      <p>${message}</p>
      ${action !== undefined && html`<p><a class="button" href="${action.href}">${action.label}</a></p>`}
    </div>`,
  });
}

/** Renders the page of a signed-in person whose address is not that of the invitation, which is not shown. */
export function otherAddressPage(offer: Pick<Offer, 'root' | 'token'> & { email: string }): string {
  return noticePage(offer.root, {
    title: 'Invitation for another account',
    message: `You are signed in as ${offer.email}, and this invitation is for another e-mail address.`,
    action: { href: signInPath(offer), label: 'Sign in with another account' },
  });
}

export function alreadyMemberPage({ root, store }: { root: string; store: string }): string {
  return noticePage(root, {
    title: 'You are a member already',
    message: 'Your role in the store stays as it is, and the invitation stays valid.',
    action: { href: store, label: 'Open the store' },
  });
}

export function storeFullPage({ root, membersPerStore }: { root: string; membersPerStore: number }): string {
  return noticePage(root, {
    title: 'The store has no place',
    message: `A store has at most ${membersPerStore} members. The invitation stays valid: ask an owner to remove a member first.`,
    action: undefined,
  });
}
