/** Rendered pages of the dashboard, for browser and validator tests. */
import { deliveryPage, detailsOf } from '#dashboard/delivery-page.ts';
import { invitationPage } from '#dashboard/invitations-part.ts';
import { membersOf, membersPage } from '#dashboard/members-page.ts';
import {
  boolean,
  code,
  date,
  enumeration,
  number,
  text,
  url,
  type Action,
  type Document,
} from '#hypermedia/document.ts';
import type { View } from '#hypermedia/view.ts';
import { attempt, collectionOf, naming, store } from './documents.ts';

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

const request: Document = {
  name: 'request',
  embedded: [],
  links: [
    { rel: 'payload', href: `${store}/events/691489734656233/payload`, title: 'The complete payload of the event' },
  ],
  properties: [
    text('note', 'This is the request of the last attempt.'),
    text('method', 'POST'),
    url('url', `https://example.com/${'a-long-path/'.repeat(20)}?token=x`),
    code('headers', HEADERS),
    code('body', JSON.stringify(BODY)),
    number('body_length', JSON.stringify(BODY).length),
  ],
};

function delivery(status: 'pending' | 'failed', attempts: number): Document {
  const isPending = status === 'pending';
  return {
    name: 'status',
    title: 'Transaction 7001 created',
    actions: isPending ? [] : [resend],
    links: [
      { rel: 'self', href: self },
      { rel: 'webhook', href: `${baseUrl}/webhooks/2281`, title: 'The webhook', crumb: 'Orders' },
      { rel: 'event', href: `${store}/events/691489734656233`, title: 'The event' },
    ],
    properties: [
      number('id', 691_489_734_656_480),
      text('event', 'transaction/created'),
      enumeration('status', status),
      text.orNull(
        'reason',
        attempts === 0 ? null : 'Your endpoint answered 500: an error occurred in it. Check its log.',
      ),
      number('attempts', attempts),
      number.orNull('attempts_max', isPending ? 12 : null),
      date.orNull('date_next', isPending ? '2026-11-20T16:34:00+0000' : null),
      text.orNull('waits_for', isPending ? 'The deliveries before it, and the rate limit (rate_per_second).' : null),
      date('date_created', '2026-11-20T16:00:00+0000'),
      date.orNull('date_ended', isPending ? null : '2026-11-20T16:20:00+0000'),
    ],
    embedded: [
      { rel: 'logs', documents: Array.from({ length: attempts }, (_, n) => attempt(n)), isTimeline: true },
      { rel: 'request', documents: [request], single: true },
    ],
  };
}

function shownDelivery(document: Document, view: View): string {
  const details = detailsOf(document);
  if (details === undefined) throw new Error('The delivery lacks a part of its page');
  return deliveryPage({ document, naming, view, now }, details);
}

function member(n: number, role: 'owner' | 'member'): Document {
  const email = `a-person-with-a-long-name-${n}@an-organization-with-a-long-name.example`;
  return {
    name: 'member',
    title: email,
    version: role,
    links: [
      { rel: 'self', href: `${store}/members/${n}` },
      ...(n === 1 ? [{ rel: 'user', href: `${baseUrl}/users/1` }] : []),
    ],
    embedded: [],
    properties: [
      number('user_id', n),
      text('email', email),
      enumeration('role', role),
      date('date_created', '2026-11-20T16:00:00+0000'),
    ],
  };
}

const role = { name: 'role', kind: 'enumeration', isRequired: true, isMultiple: false } as const;
const email = { name: 'email', kind: 'text', isRequired: false, isMultiple: false } as const;
const add: Action = {
  name: 'create',
  title: 'Add a member',
  method: 'POST',
  href: `${store}/members`,
  fields: [email, { ...role, choices: ['owner', 'member'] }],
};

function invitation(n: number, link: string | null, mailedTo: string | null): Document {
  return {
    name: 'invitation',
    title: mailedTo ?? 'Anyone with the link',
    version: 1,
    links: [
      { rel: 'self', href: `${store}/invitations/${n}` },
      { rel: 'members', href: `${store}/members`, crumb: 'Members' },
    ],
    embedded: [],
    properties: [
      text.orNull('email', mailedTo),
      enumeration('role', mailedTo === null ? 'member' : 'owner'),
      boolean('is_mailed', mailedTo !== null),
      url.orNull('link', link),
      date('date_expires', '2026-11-23T16:00:00+0000'),
    ],
  };
}

const LINK = `https://auth.example.com/invitations/hal_in_${'A'.repeat(43)}`;
const GUEST = 'guest@an-organization-with-a-long-name.example';

function shownInvitation(document: Document, view: View): string {
  const page = invitationPage({ document, naming, view });
  if (page === undefined) throw new Error('The invitation lacks its link');
  return page;
}

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
  return membersPage({ document, naming, view }, membersOf(document, naming) ?? []);
}

/** Returns variants of the pages by name, for a signed-in reader. */
export function designedPages(owner: View): readonly (readonly [name: string, page: string])[] {
  const refresh = { seconds: 30, isStopped: false, href: '/?refresh=0' };
  return [
    ['a delivery that failed', shownDelivery(delivery('failed', 3), { ...owner, done: 'Started.' })],
    ['a delivery that is retried', shownDelivery(delivery('pending', 2), { ...owner, refresh })],
    ['a delivery without an attempt', shownDelivery(delivery('pending', 0), owner)],
    ['members', shownMembers([member(1, 'owner'), member(2, 'owner'), member(3, 'member')], owner)],
    ['members and invitations', shownMembers([member(1, 'owner'), member(3, 'member')], withInvitations(owner))],
    ['a new invitation', shownInvitation(invitation(1, LINK, null), owner)],
    ['a mailed invitation', shownInvitation(invitation(2, LINK, GUEST), owner)],
    ['members with one owner', shownMembers([member(1, 'owner'), member(2, 'member')], owner)],
  ];
}
