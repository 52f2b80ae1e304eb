/** The invitations on the page of the members, and the page that shows the link of a new one. */
import type { Document, Naming } from '#hypermedia/document.ts';
import { collectionOf } from '#hypermedia/html/collection.ts';
import { formAround } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/page.ts';
import { badge } from '#hypermedia/html/values.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { shownDateOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';

type Shown = { document: Document; naming: Naming; view: View };

const valuesOf = ({ properties }: Document) => new Map(properties.map(({ name, value }) => [name, value]));

const textOf = (values: ReturnType<typeof valuesOf>, name: string): string | undefined => {
  const value = values.get(name);
  return typeof value === 'string' ? value : undefined;
};

/** Returns the badge of a role. */
export function roleBadge(role: string): Markup {
  return role === 'owner' ? badge('Owner', 'fine') : badge('Member', 'plain');
}

function row(invitation: Document, naming: Naming, session: NonNullable<View['session']>): Markup {
  const values = valuesOf(invitation);
  const [role = '', expires = ''] = ['role', 'date_expires'].map((property) => textOf(values, property));
  const name = invitation.title ?? '';
  const way = values.get('is_mailed') === true ? 'Mailed' : 'By link';
  const href = linkTo(invitation, 'self')?.href ?? '';
  const revoke = formAround(
    { name: 'delete', title: '', method: 'DELETE', href, fields: [] },
    { naming, session, version: undefined },
    html`<button type="submit" class="quiet">Revoke<span class="unseen"> the invitation: ${name}</span></button>`,
  );
  return html`<li>
    <div>
      <p class="entry"><a href="${hrefOf(href, naming)}">${name}</a> ${roleBadge(role)}</p>
      <p class="soft">${way}, expires on ${shownDateOf(expires)}</p>
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
  const collection = invitations && collectionOf(invitations);
  if (collection === undefined || session === undefined || collection.total === 0) return false;
  return html`<h2>Pending invitations</h2>
    <ul class="rows">
      ${collection.items.documents.map((invitation) => row(invitation, naming, session))}
    </ul>`;
}

/** Renders the page of a new invitation, with its link; undefined if the document has none. */
export function invitationPage({ document, naming, view }: Shown): string | undefined {
  const values = valuesOf(document);
  const [link, email, expires = '', role = ''] = ['link', 'email', 'date_expires', 'role'].map((name) =>
    textOf(values, name),
  );
  if (link === undefined) return undefined;
  const isMailed = values.get('is_mailed') === true;
  const members = hrefOf(linkTo(document, 'members')?.href ?? '', naming);
  const main = html`<p class="good" role="status">${isMailed ? 'Invitation mailed.' : 'Invitation created.'}</p>
    <div class="card">
      ${crumbs(document, naming)}
      <div class="title">
        <h1>Invitation for ${email === undefined ? 'anyone with the link' : email}</h1>
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
          email !== undefined
            ? 'Only a person with this e-mail address can accept.'
            : 'The first person who opens it can join: send it only to the person that you invite.'
        }
      </p>
      <div class="buttons"><a class="button" href="${members}">Back to the members</a></div>
    </div>`;
  return renderDesigned({ document, naming, view, main });
}
