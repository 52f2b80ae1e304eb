/** Rendered pages of the dashboard, for browser and validator tests. */
import { deliveryPage } from '#dashboard/delivery-page.ts';
import { invitationPage, membersOf, membersPage } from '#dashboard/access-pages.ts';
import type { Action, Document } from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { invitationView } from '#stores/invitations/invitation.ts';
import { memberView } from '#stores/members/member.ts';
import { detailedView, type AttemptView, type DetailedView } from '#webhooks/history/delivery-details.ts';
import { collectionOf, naming, store } from './documents.ts';

const { baseUrl } = naming;
const now = new Date('2026-11-20T16:30:00Z');
const self = `${baseUrl}/webhooks/2281/statuses/691489734656480`;
const resend: Action = { name: 'resend', title: 'Send it again', method: 'POST', href: `${self}/resend`, fields: [] };

const BODY = {
  id: 7_001,
  note: `<b>it's</b> "late" \u202e`,
  total: 1.5,
  is_test: true,
  items: Array.from({ length: 40 }, () => ({ name: null })),
};
const HEADERS = 'content-type: application/hal+json\nwebhook-id: msg_1\nwebhook-timestamp: 1\nx-team: ops';

const REASON = 'Your endpoint answered 500';

function tried(n: number): AttemptView {
  const isFine = n % 4 === 0;
  return {
    n: 1 + n,
    request: `${self}?attempt=${1 + n}`,
    outcome: isFine ? 'delivered' : 'refused',
    reason: isFine ? null : { what: REASON, text: `${REASON}: an error occurred in it. Check its log.` },
    date: `2026-11-20T16:${10 + n}:10+0000`,
    durationMs: 214 + 37 * n,
    responseCode: isFine ? 200 : 500,
    responseBody: isFine ? '{"ok":true}' : '<html>\r\n<body>\u0007Internal error</body>\n</html>',
    responseHeaders: 'content-type: text/html\nserver: example\nx-request-id: 7f3',
  };
}

function delivery(status: 'pending' | 'failed', attempts: number): Document {
  const isPending = status === 'pending';
  const shown: DetailedView = {
    id: 691_489_734_656_480,
    title: 'Transaction 7001 created',
    webhookId: 2281,
    event: 'transaction/created',
    status,
    reason: attempts === 0 ? null : { what: REASON, text: `${REASON}: an error occurred in it. Check its log.` },
    attempts,
    attemptsMax: isPending ? 12 : null,
    dateNext: isPending ? '2026-11-20T16:34:00+0000' : null,
    waitsFor: isPending ? { kind: 'queue', text: 'The deliveries before it, and the rate limit.' } : null,
    dateCreated: '2026-11-20T16:00:00+0000',
    dateEnded: isPending ? null : '2026-11-20T16:20:00+0000',
    resentAs: null,
    resent: null,
    tried: Array.from({ length: attempts }, (_, n) => tried(n)),
    request: {
      attempt: attempts === 0 ? null : attempts,
      note: 'This is the request of the last attempt.',
      isAsSent: true,
      method: 'POST',
      url: `https://example.com/${'a-long-path/'.repeat(20)}?token=x`,
      headers: HEADERS,
      body: JSON.stringify(BODY),
      bodyBytes: JSON.stringify(BODY).length,
      payload: `${store}/events/691489734656233/payload`,
    },
  };
  return {
    name: 'status',
    title: shown.title,
    actions: isPending ? [] : [resend],
    links: [
      { rel: 'self', href: self },
      { rel: 'webhook', href: `${baseUrl}/webhooks/2281`, title: 'The webhook', crumb: 'Orders' },
      { rel: 'event', href: `${store}/events/691489734656233`, title: 'The event' },
    ],
    properties: [],
    embedded: [],
    ...detailedView.attach(shown),
  };
}

/** Returns a page; throws for a document that has no designed one. */
export function shownPage(page: string | undefined): string {
  if (page === undefined) throw new Error('The document has no view');
  return page;
}

const shownDelivery = (document: Document, view: View): string =>
  shownPage(deliveryPage({ document, naming, view, now }));

function member(n: number, role: 'owner' | 'member'): Document {
  const name = `a-person-with-a-long-name-${n}@an-organization-with-a-long-name.example`;
  const address = `${store}/members/${n}`;
  const shown = { name, role, since: '2026-11-20T16:00:00+0000', address, version: role, isReader: n === 1 };
  return { name: 'member', title: name, links: [], embedded: [], properties: [], ...memberView.attach(shown) };
}

const roleField = { name: 'role', kind: 'enumeration', isRequired: true, isMultiple: false } as const;
const emailField = { name: 'email', kind: 'text', isRequired: false, isMultiple: false } as const;
const add: Action = {
  name: 'create',
  title: 'Add a member',
  method: 'POST',
  href: `${store}/members`,
  fields: [emailField, { ...roleField, choices: ['owner', 'member'] }],
};

function invitation(n: number, link: string | null, email: string | null): Document {
  const name = email ?? 'Anyone with the link';
  const members = `${store}/members`;
  return {
    name: 'invitation',
    title: name,
    links: [
      { rel: 'self', href: `${store}/invitations/${n}` },
      { rel: 'members', href: members, crumb: 'Members' },
    ],
    embedded: [],
    properties: [],
    ...invitationView.attach({
      name,
      address: `${store}/invitations/${n}`,
      email,
      role: email === null ? 'member' : 'owner',
      isMailed: email !== null,
      link,
      expires: '2026-11-23T16:00:00+0000',
      members,
    }),
  };
}

const LINK = `https://auth.example.com/invitations/hal_in_${'A'.repeat(43)}`;
const GUEST = 'guest@an-organization-with-a-long-name.example';

const shownInvitation = (document: Document, view: View): string =>
  shownPage(invitationPage({ document, naming, view }));

function withInvitations(view: View): View {
  const invitations = collectionOf('invitations', 'Invitations to this store', [
    invitation(1, null, null),
    invitation(2, null, GUEST),
  ]);
  const invite: Action = { ...add, title: 'Invite a person', href: `${store}/invitations` };
  return { ...view, summary: { ...invitations, actions: [invite] } };
}

function shownMembers(members: readonly Document[], view: View): string {
  const document = { ...collectionOf('members', 'The members of this store', members), actions: [add] };
  return membersPage({ document, naming, view }, membersOf(document) ?? []);
}

/** Returns variants of the pages by name, for a signed-in reader. */
export function designedPages(owner: View): readonly (readonly [name: string, page: string])[] {
  return [
    ['a delivery that failed', shownDelivery(delivery('failed', 3), { ...owner, done: 'Started.' })],
    ['a delivery that is retried', shownDelivery(delivery('pending', 2), owner)],
    ['a delivery without an attempt', shownDelivery(delivery('pending', 0), owner)],
    ['members', shownMembers([member(1, 'owner'), member(2, 'owner'), member(3, 'member')], owner)],
    ['members and invitations', shownMembers([member(1, 'owner'), member(3, 'member')], withInvitations(owner))],
    ['a new invitation', shownInvitation(invitation(1, LINK, null), owner)],
    ['a mailed invitation', shownInvitation(invitation(2, LINK, GUEST), owner)],
    ['members with one owner', shownMembers([member(1, 'owner'), member(2, 'member')], owner)],
  ];
}
