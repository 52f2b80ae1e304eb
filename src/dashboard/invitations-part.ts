/** The invitations on the page of the members, and the page that shows the link of a new one. */
import type { ShownDocument } from '#http/services.ts';
import type { Document, Naming } from '#hypermedia/document.ts';
import { formAround } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/document-page.ts';
import { badge } from '#hypermedia/html/property-values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import { invitationView, type InvitationView } from '#stores/invitations/invitation.ts';
import { itemsOf } from './days.ts';

/** Returns the badge of a role. */
export function roleBadge(role: string): Markup {
  return role === 'owner' ? badge('Owner', 'fine') : badge('Member', 'plain');
}

function row(invitation: InvitationView, naming: Naming, session: NonNullable<View['session']>): Markup {
  const { name, role, isMailed, expires, address } = invitation;
  const revoke = formAround(
    { name: 'delete', title: '', method: 'DELETE', href: address, fields: [] },
    { naming, session, version: undefined },
    html`<button type="submit" class="quiet">Revoke<span class="unseen"> the invitation: ${name}</span></button>`,
  );
  return html`<li>
    <div>
      <p class="entry"><a href="${hrefOf(address, naming)}">${name}</a> ${roleBadge(role)}</p>
      <p class="soft">${isMailed ? 'Mailed' : 'By link'}, expires on ${shownDateOf(expires)}</p>
    </div>
    <div class="actions">${revoke}</div>
  </li>`;
}

/** Renders the pending invitations; false if there are none. */
export function pendingInvitations(
  invitations: Document | undefined,
  naming: Naming,
  session: View['session'],
): Markup | false {
  const pending = invitations && itemsOf(invitations, invitationView);
  if (pending === undefined || session === undefined || pending.length === 0) return false;
  return html`<h2>Pending invitations</h2>
    <ul class="rows">
      ${pending.map((invitation) => row(invitation, naming, session))}
    </ul>`;
}

/** Renders the page of a new invitation, with its link; undefined if the document has none. */
export function invitationPage({ document, naming, view }: Omit<ShownDocument, 'now'>): string | undefined {
  const invitation = invitationView.of(document);
  if (invitation === undefined || invitation.link === null) return undefined;
  const { link, email, expires, role, isMailed } = invitation;
  const members = hrefOf(invitation.members, naming);
  const main = html`<p class="good" role="status">${isMailed ? 'Invitation mailed.' : 'Invitation created.'}</p>
    <div class="card">
      ${crumbs(document, naming)}
      <div class="title">
        <h1>Invitation for ${email === null ? 'anyone with the link' : email}</h1>
        ${roleBadge(role)}
      </div>
      <p class="lead">
        ${isMailed ? 'A mail with a link is on its way. You can also hand over this link' : 'Hand over this link'}: it
        is shown only now.
      </p>
      <pre class="command">${'\n'}${link}</pre>
      <p>
        It works once, until ${shownDateOf(expires)}.
        ${
          email !== null
            ? 'Only a person with this e-mail address can accept.'
            : 'The first person who opens it can join: send it only to the person that you invite.'
        }
      </p>
      <div class="buttons"><a class="button" href="${members}">Back to the members</a></div>
    </div>`;
  return renderDesigned({ document, naming, view, main });
}
