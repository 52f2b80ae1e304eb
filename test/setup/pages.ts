/** Rendered pages in all their variants, for browser and validator tests. */
import { type Action, type Document, type Field, date, json, number } from '#hypermedia/document.ts';
import { overviewPage } from '#dashboard/overview-page.ts';
import { webhookPage } from '#dashboard/webhook-page.ts';
import { healthRelations } from '#webhooks/delivery-relations.ts';
import { createFrontPage } from '#dashboard/dashboard.ts';
import { renderHtml } from '#hypermedia/html/document-page.ts';
import { html } from '#hypermedia/markup.ts';
import type { View, Curve } from '#hypermedia/view.ts';
import { overviewView } from '#webhooks/health/health-document.ts';
import { deliveryPage } from '#dashboard/delivery-page.ts';
import { invitationPage, membersOf, membersPage } from '#dashboard/access-pages.ts';
import { invitationView } from '#stores/invitations/invitation.ts';
import { memberView } from '#stores/members/member.ts';
import { detailedView, type AttemptView, type DetailedView } from '#webhooks/history/delivery-details.ts';
import {
  attempt,
  collectionOf,
  endless,
  errors,
  EVENTS,
  home,
  naming,
  store,
  transaction,
  webhook,
} from './documents.ts';

// Snapshots of recurring revenue

const FIRST = Date.UTC(2026, 7, 22);
const dayOf = (n: number): string => new Date(FIRST + n * 86_400_000).toISOString().slice(0, 10);

/** Daily values that alternate around a rising trend. */
function curve(currency: string, days: number, scale: number): Curve {
  return {
    title: `Monthly recurring revenue in ${currency}`,
    currency,
    points: Array.from({ length: days }, (_, n) => ({
      day: dayOf(n),
      value: Math.round(100 * scale * (40 + n / 2 + 6 * Math.sin(n / 4) + (n % 7))) / 100,
    })),
  };
}

const revenue = (currency_code: string, mrr: number) => ({
  currency_code,
  mrr,
  active_count: 212,
  new: 60,
  expansion: 19.99,
  contraction: 0,
  churn: 45,
  reactivation: 0,
});

function snapshot(n: number): Document {
  return {
    name: 'subscription_mrr_snapshot',
    title: `Subscription MRR snapshot ${n}`,
    links: [
      { rel: 'self', href: `${store}/subscription_mrr_snapshots/${n}`, title: 'This subscription MRR snapshot' },
      { rel: 'store', href: store, title: 'The store it belongs to' },
    ],
    embedded: [],
    properties: [
      number('id', n),
      date('date', dayOf(n)),
      json('currencies', [revenue('EUR', 4180.5), revenue('JPY', 1_234_567)]),
      date('date_created', '2026-11-20T00:10:00+0100'),
    ],
  };
}

const snapshots = collectionOf(
  'subscription_mrr_snapshots',
  'The subscription MRR snapshots of this store',
  Array.from({ length: 20 }, (_, n) => snapshot(n)),
);

// Pages of the dashboard

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
function shownPage(page: string | undefined): string {
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
function designedPages(owner: View): readonly (readonly [name: string, page: string])[] {
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

// All pages

const nav = html`<nav aria-label="Your pages">
  <a href="/account">Account</a><a href="/account/clients">Your apps</a>
  <form method="post" action="/sign-out"><button type="submit">Sign out</button></form>
</nav>`;

/** A visitor without a session, and one with a session. */
export const visitor: View = { nav, session: undefined };
export const owner: View = { nav, session: { nonceOf: ({ name }) => `nonce-of-${name}`, onceKey: 'once' } };

const one = { isRequired: false, isMultiple: false } as const;
const FORMATS = ['json', 'partner_automation', 'partner_sitebuilder'];

/** One field of each kind. */
// oxfmt-ignore
const FIELDS: readonly Field[] = [
  { ...one, name: 'name', kind: 'text', isRequired: true, minLength: 1, maxLength: 255, hint: 'What people call it' },
  { ...one, name: 'format', kind: 'enumeration', isRequired: true, choices: FORMATS },
  { ...one, name: 'url', kind: 'url', maxLength: 1000, hint: 'Where it is sent; nowhere while it is empty' },
  { ...one, name: 'query', kind: 'text', maxLength: 1000, hint: 'How the payload is shaped: zoom and fields' },
  { ...one, name: 'encryption_key', kind: 'secret', maxLength: 1000, hint: 'Signs what is sent', isGenerated: true },
  { ...one, name: 'event_resource', kind: 'enumeration', choices: ['transaction', 'subscription', 'customer'] },
  { ...one, name: 'events', kind: 'enumeration', isMultiple: true, choices: EVENTS },
  { ...one, name: 'is_active', kind: 'boolean' },
  { ...one, name: 'headers', kind: 'json', hint: 'Extra headers, one a line as Name: value' },
  { ...one, name: 'rate_per_second', kind: 'number', minimum: 1, maximum: 1000 },
  { ...one, name: 'redirect_uris', kind: 'url', isMultiple: true },
  { ...one, name: 'retry_profile', kind: 'enumeration', choices: ['hour', 'long'], isClearable: true },
];

/** The form with the current values, as the application fills it in. */
function filled({ properties }: Document): Field[] {
  const values = new Map(properties.map(({ name, value }) => [name, value]));
  return FIELDS.map((field) => {
    const value = values.get(field.name) ?? null;
    return { ...field, isRequired: false, ...(value !== null && { value }) };
  });
}

/** Returns the document with its actions. */
export function changeable(document: Document): Document {
  const href = document.links.find(({ rel }) => rel === 'self')?.href ?? '';
  const actions: Action[] = [
    { name: 'change', title: 'Change this webhook', method: 'PATCH', href, fields: filled(document) },
    { name: 'replace', title: 'Replace this webhook', method: 'PUT', href, fields: filled(document) },
    { name: 'delete', title: 'Delete this webhook', method: 'DELETE', href, fields: [] },
  ];
  return { ...document, actions };
}

export const NEW_KEY = 'whsec_bWFkZSB1cCBmb3IgYSBuZXcgb25l';

const made: Readonly<Record<string, Partial<Field>>> = {
  encryption_key: { value: NEW_KEY },
  is_active: { value: '1' },
};

const creating: Action = {
  name: 'create',
  title: 'Create a webhook',
  method: 'POST',
  href: `${store}/webhooks`,
  fields: FIELDS.map((field) => Object.assign({}, field, made[field.name])),
};

const WEBHOOKS = 'The webhooks of this store';
const webhooks = Array.from({ length: 20 }, (_, n) => webhook(n));
export const list = { ...collectionOf('webhooks', WEBHOOKS, webhooks, { offset: 20, total: 45 }), actions: [creating] };
export const emptyList = { ...collectionOf('webhooks', WEBHOOKS, []), actions: [creating] };
const attempts = Array.from({ length: 12 }, (_, n) => attempt(n));
export const logs = collectionOf('logs', 'The attempts of this webhook', attempts);

/** Rejected input: the value of each field and its fault. */
export const refused: View & Required<Pick<View, 'refused'>> = {
  ...owner,
  refused: {
    action: 'create',
    version: '',
    values: {
      name: [''],
      format: ['partner_automation'],
      url: ['ftp://example.com/"quoted"'],
      query: ['\nzoom=<items>'],
      encryption_key: ['typed by hand'],
      event_resource: ['customer'],
      events: ['transaction/refunded', 'customer/created'],
      is_active: ['0'],
      headers: ['X-A: 1\nX-B'],
      rate_per_second: ['many'],
      redirect_uris: ['https://a.example\nhttps://b.example'],
      retry_profile: ['hourly'],
    },
    faults: [
      { code: 'too_short', message: 'name must not be empty', field: 'name' },
      { code: 'invalid_value', message: 'url must be an absolute http or https address', field: 'url' },
      { code: 'invalid_value', message: 'events: customer/created is of another resource', field: 'events.1' },
      { code: 'invalid_value', message: 'rate_per_second must be a number', field: 'rate_per_second' },
      { code: 'limit_reached', message: 'A store has at most 100 webhooks: delete one first' },
    ],
  },
};

const signedIn = { naming, now: new Date('2026-11-20T16:05:03Z') };
const exampleOf = (rel: string): Document => {
  const example = healthRelations.find((relation) => relation.rel === rel)?.example?.(naming);
  if (example === undefined) throw new TypeError(`${rel} has no example`);
  return example;
};
const [overview, health] = [exampleOf('overview'), exampleOf('health')];
const overviewOfNone = {
  ...overview,
  ...overviewView.attach({ storeId: 1303, period: '24h', healths: [], webhooks: '/webhooks' }),
};
const refusedChange: View = { ...owner, refused: { ...refused.refused, action: 'change' } };

/** All variants of pages, by name. */
export const pages: readonly (readonly [name: string, page: string])[] = [
  ['a webhook with its forms', renderHtml(changeable(webhook(0)), naming, { ...owner, done: 'It is saved.' })],
  ['a webhook without a session', renderHtml(changeable(webhook(2)), naming, visitor)],
  ['webhooks', renderHtml(list, naming, owner)],
  ['no webhooks', renderHtml(emptyList, naming, owner)],
  ['a form that was refused', renderHtml(list, naming, refused)],
  ['attempts to deliver', renderHtml(logs, naming, visitor)],
  ['a transaction', renderHtml(transaction, naming, visitor)],
  ['names without an end', renderHtml(endless('a'), naming, visitor)],
  [
    'a list of names without an end',
    renderHtml(collectionOf('transactions', 'All', [endless('a'), endless('b')]), naming, visitor),
  ],
  ['the overview', shownPage(overviewPage({ ...signedIn, document: overview, view: owner }))],
  [
    'the overview of a store without webhooks',
    shownPage(overviewPage({ ...signedIn, document: overviewOfNone, view: owner })),
  ],
  [
    'the page of a webhook',
    shownPage(webhookPage({ ...signedIn, document: changeable(webhook(0)), view: { ...owner, summary: health } })),
  ],
  [
    'the page of a webhook with a form that was refused',
    shownPage(webhookPage({ ...signedIn, document: changeable(webhook(1)), view: refusedChange })),
  ],
  ['an error', renderHtml(errors, naming, visitor)],
  ['home', renderHtml(home, naming, owner)],
  [
    'the front page',
    createFrontPage({ signInPath: '/sign-in', versionHeader: 'SERVICE-API-VERSION' })({
      document: home,
      naming,
      view: visitor,
    }),
  ],
  [
    'a snapshot with its curve',
    renderHtml(snapshot(89), naming, { ...owner, charts: { curves: [curve('EUR', 90, 30)] } }),
  ],
  [
    'snapshots with a curve of each currency',
    renderHtml(snapshots, naming, {
      ...owner,
      charts: {
        curves: [curve('EUR', 20, 1), curve('JPY', 20, 123_456), curve('USD', 1, 1)],
        note: 'Not drawn: the 2 currencies with the fewest subscriptions.',
      },
    }),
  ],
  ...designedPages(owner),
];
