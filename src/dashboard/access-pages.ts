/**
 * The pages of who has access to a store: its members and their roles, with small forms for owners; and its apps: who let which app in, what
 * it may do, its webhooks, and the button that ends its access.
 */
import type { ShownDocument } from '#http/services.ts';
import { type Action, type Document, type Naming, date, enumeration, text } from '#hypermedia/document.ts';
import { collectionOf, pager, type Collection, itemsOf } from '#hypermedia/html/content.ts';
import { actionForm, formAround } from '#hypermedia/html/form.ts';
import { crumbs, hrefOf } from '#hypermedia/html/links.ts';
import { renderDesigned, renderHtml } from '#hypermedia/html/document-page.ts';
import { parseAddress, searchPart } from '#hypermedia/html/search-form.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { dayOfDate, shownDateOf } from '#hypermedia/shown-date.ts';
import type { View } from '#hypermedia/view.ts';
import { memberView, type MemberView } from '#stores/members/member.ts';
import { badge, stateBadge } from '#hypermedia/html/property-values.ts';
import { invitationView, type InvitationView } from '#stores/invitations/invitation.ts';
import { accessView } from '#identity/oauth/grants.ts';
import type { StoreGrantView } from '#identity/oauth/connected/store-grants.ts';

/** Returns the members of the document; undefined if there are none or only parts of them. */
export function membersOf(document: Document): readonly MemberView[] | undefined {
  const members = itemsOf(document, memberView);
  return members?.length === 0 ? undefined : members;
}

type Session = NonNullable<View['session']>;

type Forms = { naming: Naming; session: Session };

/** Returns an action of what is listed. Lists have only their own actions; the server checks the rights of each request. */
const actionAt = (href: string, method: 'PATCH' | 'DELETE'): Action => ({
  name: method === 'PATCH' ? 'change' : 'delete',
  title: '',
  method,
  href,
  fields: [],
});

/** Renders a folded form that deletes what has this address, with what that does. */
const foldedDeletion = (
  { address, version }: { address: string; version: Document['version'] },
  { summary, effect, button }: { summary: Markup | string; effect: string; button: Markup },
  forms: Forms,
): Markup =>
  html`<details class="fold">
    <summary>${summary}</summary>
    ${formAround(
      actionAt(address, 'DELETE'),
      { ...forms, version },
      html`<p>${effect}</p>
        ${button}`,
    )}
  </details>`;

/** Renders the button that changes the role, and the folded one that removes the member. */
function memberForms(member: MemberView, forms: Forms): Markup {
  const { name, role, address, version, isReader } = member;
  const [other, words] = role === 'owner' ? ['member', 'a member'] : ['owner', 'an owner'];
  const change = formAround(
    actionAt(address, 'PATCH'),
    { ...forms, version, values: { role: other } },
    html`<button type="submit" class="quiet">Make ${words}<span class="unseen">: ${name}</span></button>`,
  );
  if (isReader) return html`${change} ${leaveForm(member, forms)}`;
  const removal = {
    summary: html`Remove …<span class="unseen"> ${name}</span>`,
    effect: 'This person loses access to the store at once, and so do the apps that they connected to it.',
    button: html`<button type="submit" class="danger">Remove ${name}</button>`,
  };
  return html`${change} ${foldedDeletion(member, removal, forms)}`;
}

/** Renders the folded button with which the reader leaves the store. */
function leaveForm(member: MemberView, forms: Forms): Markup {
  const effect = 'You lose access to the store at once, and so do the apps that you connected to it.';
  const button = html`<button type="submit" class="danger">Leave the store</button>`;
  return foldedDeletion(member, { summary: 'Leave the store …', effect, button }, forms);
}

const ONLY_OWNER = html`<p class="soft">The only owner. To change that, make another member an owner first.</p>`;

function row(member: MemberView, forms: Markup | false, naming: Naming): Markup {
  const { name, role, since, address, isReader } = member;
  return html`<li>
    <div>
      <p class="entry">
        <a href="${hrefOf(address, naming)}">${name}</a> ${roleBadge(role)}
        ${isReader && html`<span class="soft">you</span>`}
      </p>
      <p class="soft">Since <time datetime="${since}">${dayOfDate(since)}</time></p>
    </div>
    ${forms !== false && html`<div class="actions">${forms}</div>`}
  </li>`;
}

/** Returns the only owner of the store; undefined if there are several, or if the page may not show all of them. */
function onlyOwner(members: readonly MemberView[], { total }: Collection): MemberView | undefined {
  const [owner, ...others] = members.filter(({ role }) => role === 'owner');
  return members.length === total && others.length === 0 ? owner : undefined;
}

/** Renders the page of these members, and the invitations of the view's summary. */
export function membersPage(
  { document, naming, view }: Omit<ShownDocument, 'now'>,
  members: readonly MemberView[],
): string {
  const collection = collectionOf(document);
  if (collection === undefined) throw new TypeError('The members are no collection');
  const { filters } = parseAddress(document, naming);
  const inviteForm = view.summary && actionForm({ document: view.summary, naming, view }, 'create');
  // The same readers may invite, change and remove members.
  const session = inviteForm && view.session;
  const only = filters.length === 0 ? onlyOwner(members, collection) : undefined;
  const formsOf = (member: MemberView): Markup | false => {
    if (member === only) return member.isReader && ONLY_OWNER;
    if (session !== undefined) return memberForms(member, { naming, session });
    return member.isReader && view.session !== undefined && leaveForm(member, { naming, session: view.session });
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
      ${members.map((member) => row(member, formsOf(member), naming))}
    </ul>
    ${pager(document, collection, naming)} ${pendingInvitations(view.summary, naming, session || undefined)}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}

/** Returns the badge of a role. */
function roleBadge(role: string): Markup {
  return role === 'owner' ? badge('Owner', 'fine') : badge('Member', 'plain');
}

function invitationRow(invitation: InvitationView, { naming, session }: Forms): Markup {
  const { name, role, isMailed, expires, address } = invitation;
  const revoke = formAround(
    actionAt(address, 'DELETE'),
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

/** Renders the pending invitations on the page of the members; false if there are none. */
function pendingInvitations(
  invitations: Document | undefined,
  naming: Naming,
  session: View['session'],
): Markup | false {
  const pending = invitations && itemsOf(invitations, invitationView);
  if (pending === undefined || session === undefined || pending.length === 0) return false;
  return html`<h2>Pending invitations</h2>
    <ul class="rows">
      ${pending.map((invitation) => invitationRow(invitation, { naming, session }))}
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

/** Returns the events of a webhook: their names, or the first of them and how many there are. */
function eventWords(events: readonly string[]): string {
  const [first, ...others] = events;
  if (first === undefined) return 'no events';
  return others.length < 3 ? events.join(', ') : `${first} and ${others.length} other events`;
}

function webhookLine(
  { name, address, isActive, isForApp, events }: StoreGrantView['webhooks'][number],
  naming: Naming,
) {
  return html`<dd>
    <a href="${hrefOf(address, naming)}">${name}</a> ${!isActive && badge('Disabled', 'plain')}
    <span class="soft">${isForApp && 'declared by the app: '}${eventWords(events)}</span>
  </dd>`;
}

/** Renders the folded button that disconnects the app, or says who can do that. */
function endPart(app: StoreGrantView, { naming, session }: { naming: Naming; session: Session | undefined }): Markup {
  const { name, by, end, own, isOfAccount, mayEnd } = app;
  if (own !== null && isOfAccount)
    return html`<p class="soft">
      You gave it access to your whole account. <a href="${hrefOf(own, naming)}">Disconnect it from the account</a>
    </p>`;
  if (isOfAccount)
    return html`<p class="soft">
      Only ${by} can disconnect it, because it has access to the whole account. It has no access to this store any more
      when ${by} is no longer a member.
    </p>`;
  if (!mayEnd || session === undefined)
    return html`<p class="soft">${by} and the owners of the store can disconnect it.</p>`;
  const summary = html`Disconnect …<span class="unseen"> ${name}</span>`;
  const button = html`<button type="submit" class="danger" aria-label="Disconnect ${name} of ${by}">
    Disconnect
  </button>`;
  return foldedDeletion(app, { summary, effect: end, button }, { naming, session });
}

function entry(app: StoreGrantView, { naming, session }: { naming: Naming; session: Session | undefined }): Markup {
  const { name, company, isVerified, logo, by, own, permissions, since, lastUsed, ends, webhooks, address } = app;
  return html`<li>
    <div class="who">
      ${logo !== null && html`<img class="logo" src="${logo}" alt="" width="48" height="48" />`}
      <p>
        <strong><a href="${hrefOf(address, naming)}">${name}</a></strong>
        ${!isVerified && stateBadge('unverified')}
        ${company !== null && html`<br /><span class="soft">${company}</span>`}
      </p>
    </div>
    <dl>
      <dt>Connected by</dt>
      <dd>${by}${own !== null && html` <span class="soft">you</span>`}</dd>
      <dt>Since</dt>
      <dd>${shownDateOf(since)}</dd>
      <dt>Last used</dt>
      <dd>${lastUsed === null ? 'Never' : shownDateOf(lastUsed)}</dd>
      ${
        ends !== null &&
        html`<dt>Ends</dt>
          <dd>${shownDateOf(ends)}</dd>`
      }
      <dt>Permissions</dt>
      ${permissions.map((words) => html`<dd>${words}</dd>`)}
      <dt>Its webhooks</dt>
      ${webhooks.length === 0 ? html`<dd>None</dd>` : webhooks.map((webhook) => webhookLine(webhook, naming))}
    </dl>
    ${endPart(app, { naming, session })}
  </li>`;
}

/** Renders the page of one app of a store; undefined for an app of a user. */
export function appPage(
  { document, naming, view }: ShownDocument,
  app: StoreGrantView | undefined,
): string | undefined {
  const main = app && entry(app, { naming, session: view.session });
  const page = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>${app?.name}</h1>
    <ul class="entries">
      ${main}
    </ul>
  </div>`;
  return main && renderDesigned({ document, naming, view, main: page });
}

/** Renders the page of these apps. `root`: the path prefix of the pages of people. */
export function appsPage(
  { document, naming, view }: Omit<ShownDocument, 'now'>,
  { apps, root }: { apps: readonly StoreGrantView[]; root: string },
) {
  const collection = collectionOf(document);
  if (collection === undefined) throw new TypeError('The apps are no collection');
  const { filters } = parseAddress(document, naming);
  const isPart = filters.length > 0 || apps.length < collection.total;
  const main = html`<div class="card">
    ${crumbs(document, naming)}
    <h1>Apps</h1>
    <p class="soft">
      Apps that a member has let into this store. Each may do what its permissions say, until it is disconnected. A
      program of your own gets tokens on the page of <a href="${root}/account/clients">your app</a>.
    </p>
    ${isPart && searchPart(document, naming)}
    ${
      apps.length === 0
        ? html`<p>No app has access to this store.</p>`
        : html`<ul class="entries">
            ${apps.map((app) => entry(app, { naming, session: view.session }))}
          </ul>`
    }
    ${pager(document, collection, naming)}
  </div>`;
  return renderDesigned({ document, naming, view, main });
}

/** Returns the Document of an access with the properties that a person reads. */
function readableAccess(document: Document): Document {
  const access = accessView.of(document);
  if (access === undefined) return document;
  const { company, isUnverified, reach, permissions, since, lastUsed, ends, webhooks } = access;
  const allowed = permissions.join('. ');
  return {
    ...document,
    ...(document.name === 'grant' && { called: 'Connected app' }),
    properties: [
      text('name', document.title ?? reach),
      ...(isUnverified ? [enumeration('state', 'unverified')] : []),
      ...(company === null ? [] : [text('company', company)]),
      ...(document.title === reach ? [] : [text('access_to', reach)]),
      { ...text('permissions', allowed), cell: html`${allowed}` },
      text('webhooks', webhooks),
      date('since', since),
      date.orNull('last_used', lastUsed),
      ...(ends === null ? [] : [date('ends', ends)]),
    ],
  };
}

/** Renders the generic page of an access, or of a list of them, with the properties that a person reads; undefined for another document. */
export function accessPage({ document, naming, view }: ShownDocument): string | undefined {
  const own = readableAccess(document);
  const embedded = own.embedded.map((part) => ({ ...part, documents: part.documents.map(readableAccess) }));
  return renderHtml({ ...own, embedded }, naming, view);
}
