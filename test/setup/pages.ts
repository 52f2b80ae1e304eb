/** Rendered pages in all their variants, for browser and validator tests. */
import type { Action, Document, Field } from '#hypermedia/document.ts';
import { overviewPage } from '#dashboard/overview-page.ts';
import { webhookPage } from '#dashboard/webhook-page.ts';
import { healthRelations } from '#webhooks/delivery-relations.ts';
import { createFrontPage } from '#dashboard/dashboard.ts';
import { renderHtml } from '#hypermedia/html/document-page.ts';
import { html } from '#hypermedia/markup.ts';
import type { View } from '#hypermedia/view.ts';
import { designedPages, shownPage } from './designed-pages.ts';
import { overviewView } from '#webhooks/health/health-document.ts';
import { curve, snapshot, snapshots } from './curves.ts';
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
