import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changelogPage, entriesOf } from '#dashboard/changelog-page.ts';
import { deliveriesOf, deliveriesPage } from '#dashboard/deliveries-page.ts';
import { deliveryPage } from '#dashboard/delivery-page.ts';
import { invitationPage, membersOf, membersPage } from '#dashboard/access-pages.ts';
import { overviewPage } from '#dashboard/overview-page.ts';
import { webhookPage } from '#dashboard/webhook-page.ts';
import { listView } from '#http/list-operation.ts';
import { invitationView } from '#stores/invitations/invitation.ts';
import { detailedView } from '#webhooks/history/delivery-details.ts';
import { chaptersOf } from '../../src/server/compose-reference.ts';
import { naming } from '../setup/documents.ts';
import { owner } from '../setup/pages.ts';

/** What the server writes for people: it begins with a capital letter and has several words in one line. */
const SENTENCE = /^[A-Z][^\n]* [^\n]*$/;

/** Returns a copy in which a marker replaces each sentence. */
function marked<T>(value: T): T {
  if (typeof value === 'string') return (SENTENCE.test(value) ? 'Marker' : value) as T;
  if (Array.isArray(value)) return value.map(marked) as T;
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value;
  // The type of a view is compared by its identity.
  return Object.fromEntries(Object.entries(value).map(([name, of]) => [name, name === 'type' ? of : marked(of)])) as T;
}

/** Returns the page without what is read: its elements, and their attributes except names and descriptions. */
const skeletonOf = (page: string): string =>
  page
    .replaceAll(/ (?:title|aria-label)="[^"]*"/g, '')
    .replaceAll(/>[^<]+/g, '>')
    .replaceAll('><', '>\n<');

const now = new Date('2026-11-20T16:30:00Z');
const nameless = { members: new Map(), apps: new Map(), webhooks: new Map() };
const documents = chaptersOf({ baseUrl: naming.baseUrl, authUrl: naming.baseUrl }).flatMap(({ relations }) =>
  relations.flatMap(({ example, variants = [] }) =>
    [...(example ? [example] : []), ...variants].map((make) => make(naming)),
  ),
);
/** The examples wait for other things. */
const waiting = documents.flatMap((document) => {
  const view = detailedView.of(document);
  const waitsFor = { kind: 'attempt', text: 'The time of attempt 2.' } as const;
  return view === undefined ? [] : [{ ...document, ...detailedView.attach({ ...view, status: 'pending', waitsFor }) }];
});
const health = documents.find(({ name }) => name === 'health');

type Shown = Parameters<typeof webhookPage>[0];

const pages: Readonly<Record<string, (shown: Shown) => string | undefined>> = {
  webhook: webhookPage,
  overview: overviewPage,
  status: deliveryPage,
  invitation: (shown) => {
    const invitation = invitationView.of(shown.document);
    const withLink = invitation && invitationView.attach({ ...invitation, link: 'https://example.com/invitations/1' });
    return invitationPage({ ...shown, document: { ...shown.document, ...withLink } });
  },
  members: (shown) => {
    const members = membersOf(shown.document);
    return members && membersPage(shown, members);
  },
  statuses: (shown) => {
    const document = { ...shown.document, ...listView.attach({ storeId: 1, webhookId: 1 }) };
    const listed = deliveriesOf(document, naming);
    const rest = { counts: undefined, webhooks: undefined, liveAddress: '/live', retentionDays: 30 };
    return listed && deliveriesPage({ ...shown, document }, { ...listed, ...rest });
  },
  changelogs: (shown) => {
    const entries = entriesOf(shown.document, naming);
    return entries && changelogPage(shown, { entries, names: nameless, storeId: 1 });
  },
};

for (const [name, render] of Object.entries(pages))
  test(`the page of ${name} is the same with other sentences`, () => {
    const shown = [...documents, ...waiting]
      .filter((document) => document.name === name)
      .map((document) => ({ naming, now, document, view: { ...owner, ...(health && { summary: health }) } }))
      .filter((one) => render(one) !== undefined);
    assert.notEqual(shown.length, 0, `No example of ${name} has its designed page`);
    for (const one of shown) {
      const { document, view } = one;
      const other = { ...one, document: marked(document), view: { ...view, summary: marked(view.summary) } };
      assert.equal(skeletonOf(render(other as Shown) ?? ''), skeletonOf(render(one) ?? ''));
    }
  });

test('sentences are replaced, and nothing else', () => {
  const page = {
    text: 'It failed.',
    list: ['The time of attempt 2.'],
    id: 7,
    event: 'order/created',
    type: { of: 'Its type' },
  };
  const expected = { ...page, text: 'Marker', list: ['Marker'] };
  assert.deepEqual(marked(page), expected);
});
