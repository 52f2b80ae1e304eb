/** The page of a store's members: who works in the store, in which role, with small forms for owners. */
import type { Action, Document, Naming } from '#hypermedia/document.ts';
import { collectionOf, pager, type Collection } from '#hypermedia/html/collection.ts';
import { actionForm, formAround } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf, linkTo } from '#hypermedia/html/links.ts';
import { renderDesigned } from '#hypermedia/html/page.ts';
import { parseAddress, searchPart } from '#hypermedia/html/search.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { dayOfDate } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import { pendingInvitations, roleBadge } from './invitations-part.ts';

export type ShownMember = {
  name: string;
  role: string;
  since: string;
  /** The address of the member, to which its forms are sent. */
  self: string;
  href: string;
  version: Document['version'];
  isReader: boolean;
};

/** Returns the member of a document; undefined if `fields` has removed a property that its row needs. */
function memberOf(document: Document, naming: Naming): ShownMember | undefined {
  const values = new Map(document.properties.map(({ name, value }) => [name, value]));
  const [role, since] = [values.get('role'), values.get('date_created')];
  const self = linkTo(document, 'self')?.href ?? '';
  const href = hrefOf(self, naming);
  if (typeof role !== 'string' || typeof since !== 'string' || href === undefined) return undefined;
  // A person reaches only the own user.
  const isReader = linkTo(document, 'user') !== undefined;
  return { name: document.title ?? '', role, since, self, href, version: document.version, isReader };
}

/** Returns the members of the document; undefined if there are none or not all of their properties. */
export function membersOf(document: Document, naming: Naming): readonly ShownMember[] | undefined {
  const documents = collectionOf(document)?.items.documents ?? [];
  const members = documents.flatMap((one) => memberOf(one, naming) ?? []);
  return members.length === documents.length && members.length > 0 ? members : undefined;
}

type Shown = { document: Document; naming: Naming; view: View };
type Session = NonNullable<View['session']>;

/** Returns an action of a member. Lists have only their own actions; the server checks the rights of each request. */
const actionOf = ({ self }: ShownMember, method: 'PATCH' | 'DELETE'): Action => ({
  name: method === 'PATCH' ? 'change' : 'delete',
  title: '',
  method,
  href: self,
  fields: [],
});

/** Renders the button that changes the role, and the folded one that removes the member. */
function memberForms(member: ShownMember, naming: Naming, session: Session): Markup {
  const { name, role, version, isReader } = member;
  const [other, words] = role === 'owner' ? ['member', 'a member'] : ['owner', 'an owner'];
  const change = formAround(
    actionOf(member, 'PATCH'),
    { naming, session, version, values: { role: other } },
    html`<button type="submit" class="quiet">Make ${words}<span class="unseen">: ${name}</span></button>`,
  );
  if (isReader) return html`${change} ${leaveForm(member, naming, session)}`;
  const remove = formAround(
    actionOf(member, 'DELETE'),
    { naming, session, version },
    html`<p>This person loses access to the store at once, and so do the apps that they connected to it.</p>
      <button type="submit" class="danger">Remove ${name}</button>`,
  );
  return html`${change}
    <details class="fold">
      <summary>Remove …<span class="unseen"> ${name}</span></summary>
      ${remove}
    </details>`;
}

/** Renders the folded button with which the reader leaves the store. */
function leaveForm(member: ShownMember, naming: Naming, session: Session): Markup {
  const leave = formAround(
    actionOf(member, 'DELETE'),
    { naming, session, version: member.version },
    html`<p>You lose access to the store at once, and so do the apps that you connected to it.</p>
      <button type="submit" class="danger">Leave the store</button>`,
  );
  return html`<details class="fold">
    <summary>Leave the store …</summary>
    ${leave}
  </details>`;
}

const ONLY_OWNER = html`<p class="soft">The only owner. To change that, make another member an owner first.</p>`;

function row(member: ShownMember, forms: Markup | false): Markup {
  const { name, role, since, href, isReader } = member;
  return html`<li>
    <div>
      <p class="entry">
        <a href="${href}">${name}</a> ${roleBadge(role)} ${isReader && html`<span class="soft">you</span>`}
      </p>
      <p class="soft">Since <time datetime="${since}">${dayOfDate(since)}</time></p>
    </div>
    ${forms !== false && html`<div class="actions">${forms}</div>`}
  </li>`;
}

/** Returns the only owner of the store; undefined if there are several, or if the page may not show all of them. */
function onlyOwner(members: readonly ShownMember[], { total }: Collection): ShownMember | undefined {
  const [owner, ...others] = members.filter(({ role }) => role === 'owner');
  return members.length === total && others.length === 0 ? owner : undefined;
}

/** Renders the page of these members, and the invitations of the view's summary. */
export function membersPage({ document, naming, view }: Shown, members: readonly ShownMember[]): string {
  const collection = collectionOf(document);
  if (collection === undefined) throw new TypeError('The members are no collection');
  const { filters } = parseAddress(document, naming);
  const inviteForm = view.summary && actionForm({ document: view.summary, naming, view }, 'create');
  // The same readers may invite, change and remove members.
  const session = inviteForm && view.session;
  const only = filters.length === 0 ? onlyOwner(members, collection) : undefined;
  const formsOf = (member: ShownMember): Markup | false => {
    if (member === only) return member.isReader && ONLY_OWNER;
    if (session !== undefined) return memberForms(member, naming, session);
    return member.isReader && view.session !== undefined && leaveForm(member, naming, view.session);
  };
  const isPart = filters.length > 0 || members.length < collection.total;
  const main = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>Members</h1>
    <p class="soft">
      Owners manage the members, and see the keys of webhooks and the tokens in their headers and addresses. Members can
      do everything else.
    </p>
    ${
      inviteForm &&
      html`<div class="actions">
        <details class="unfolds">
          <summary class="button">Invite a person</summary>
          <p class="soft">You get a link, with which the person signs in or creates an account.</p>
          ${inviteForm}
        </details>
      </div>`
    }
    ${isPart && searchPart(document, naming)}
    <ul class="rows">
      ${members.map((member) => row(member, formsOf(member)))}
    </ul>
    ${pager(document, collection, naming)} ${pendingInvitations(view.summary, naming, session || undefined)}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}
