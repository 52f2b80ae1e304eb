import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boolean, count, date, enumeration, json, number, text, type Document, code } from '../document.ts';
import { html } from '../markup.ts';
import type { View } from '../view.ts';
import { renderHtml } from './document-page.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const owner: View = { nav: html`<nav aria-label="Around"></nav>`, session: { nonceOf: () => 'n', onceKey: 'k' } };

function pageOf(document: Partial<Document>, view?: View): string {
  const whole = { name: 'things', links: [], embedded: [], properties: [], ...document };
  // Spaces between tags come from the templates, and the style sheet is the same on every page.
  const page = renderHtml(whole, naming, view).replace(/<style>[^<]*<\/style>/, '');
  return page.replaceAll(/\s+/g, ' ').replaceAll(/ ?(<[^<>]*?) ?> ?/g, '$1>');
}

const path = 'https://api.example.com/things';
const linksAt = (self: string, prev: string, next: string) => [
  { rel: 'self', href: path + self, title: 'The things' },
  { rel: 'prev', href: path + prev, title: 'Previous page' },
  { rel: 'next', href: path + next, title: 'Next page' },
  { rel: 'first', href: `${path}?offset=0`, title: 'First page' },
  { rel: 'last', href: `${path}?offset=9`, title: 'Last page' },
];

const thing = (n: number): Document => ({
  name: 'thing',
  links: [{ rel: 'self', href: `${path}/${n}`, title: 'This thing' }],
  embedded: [],
  properties: [number('id', n), text('name', `Thing ${n}`), enumeration('state', 'ok'), json('parts', [1])],
});

const collection = (links: Document['links'], offset: number, total: number, n = 2): Partial<Document> => ({
  links,
  embedded: [{ rel: 'things', documents: Array.from({ length: n }, (_, at) => thing(at)) }],
  properties: [count('total_items', total), number('returned_items', n), number('limit', 2), number('offset', offset)],
});

test('the title of the page is that of the document, else that of its self link, else its type', () => {
  assert.match(pageOf({ title: 'A <b>' }), /<title>A &lt;b&gt; · Halcyon<\/title>[\s\S]*<h1>A &lt;b&gt;<\/h1>/);
  assert.match(pageOf({ links: linksAt('', '', '') }), /<h1>Things<\/h1>/);
  assert.match(pageOf({ name: 'transaction_logs' }), /<h1>Transaction logs<\/h1>/);
});

function badgesOf(...properties: Document['properties']): string[] {
  const [, row = ''] = /<h1>[^<]*<\/h1>(.*?)<\/div>/.exec(pageOf({ properties })) ?? [];
  return [...row.matchAll(/class="(badge[^"]*)">([^<]*)/g)].map(([, tone, word]) => `${tone}: ${word}`);
}

test('the heading shows the state', () => {
  assert.deepEqual(badgesOf(boolean('is_active', '1'), enumeration('state', 'failing')), ['badge broken: Failing']);
  assert.deepEqual(badgesOf(boolean('is_active', '0')), ['badge broken: Inactive']);
  assert.deepEqual(badgesOf(boolean('is_active', true)), ['badge fine: Active']);
  assert.deepEqual(badgesOf(boolean('is_test', true)), []);
});

test('a page in the middle links to both neighbours with the same query, and shows its position', () => {
  const page = pageOf(collection(linksAt('?a=1&offset=2', '?a=1&offset=0', '?a=1&offset=4'), 2, 1_045));
  const ways = [...page.matchAll(/<a rel="(\w+)" href="([^"]+)">(\w+)<\/a>/g)].map(([, ...way]) => way.join(' '));
  assert.deepEqual(ways, [
    'first /things?offset=0 First',
    'prev /things?a=1&amp;offset=0 Previous',
    'next /things?a=1&amp;offset=4 Next',
    'last /things?offset=9 Last',
  ]);
  assert.match(page, /Previous<\/a><span class="soft">3–4 of 1,045<\/span><a rel="next"/);
});

test('the first and the last page have no link further, and the paging numbers appear only once', () => {
  const page = pageOf(collection(linksAt('', '?offset=0', '?offset=0'), 0, 2));
  assert.match(page, /<p class="pager"><span class="soft">1–2 of 2<\/span><\/p>/);
  assert.doesNotMatch(page, /rel="(?:first|prev|next|last)"|<dl>|Total items/);
});

test('past the end the page links back', () => {
  const page = pageOf(collection(linksAt('?offset=9', '?offset=0', '?offset=9'), 9, 2, 0));
  assert.match(page, /href="\/things\?offset=0">Previous<\/a><span class="soft">[^<]* 2<\/span><\/nav>/);
});

test('the items are rows that link to their pages; numbers are aligned, states are badges', () => {
  const page = pageOf(collection(linksAt('', '?offset=0', '?offset=0'), 0, 2));
  assert.match(page, /<th scope="col">Name<\/th><th scope="col">State<\/th><th scope="col" class="number">ID<\/th>/);
  const cells =
    '<td data-label="State"><span class="badge fine">OK</span></td><td class="number" data-label="ID">1</td>';
  assert.ok(page.includes(`<tr><th scope="row"><a href="/things/1">Thing 1</a></th>${cells}</tr>`), page);
});

test('a row is named by its title if that says more than its number', () => {
  const row = (n: number, title: string): Document => ({ ...thing(n), title, properties: [number('id', n)] });
  const rowsOf = (...documents: Document[]) => pageOf({ embedded: [{ rel: 'things', documents }] });
  const titled = rowsOf(row(7, 'Transaction 1001 created'), row(8, 'Transaction 1002 created'));
  assert.match(titled, /<th scope="col">Thing<\/th>.*<a href="\/things\/7">Transaction 1001 created<\/a>/);
  const numbered = rowsOf(row(7, 'Thing 7'), row(8, 'Thing 8'));
  assert.match(numbered, /<th scope="col">ID<\/th>.*<a href="\/things\/7">7<\/a>/);
});

test('numbers are aligned, also if one of them is unknown', () => {
  const properties = [number('attempts', 0), number('delivered', 0), number('pending', 0), number.orNull('rate', null)];
  const page = pageOf({ properties });
  assert.match(page, /<dl class="figures">.*<dt>Rate<\/dt><dd><span class="soft">–<\/span><\/dd>/);
  assert.doesNotMatch(page, /Not set/);
});

test('a resource without its own page is unfolded below its row', () => {
  const part = (n: number): Document => ({
    name: 'part',
    links: [],
    embedded: [],
    properties: [number('id', n), json('parts', { a: [n] })],
  });
  const documents = [part(1), part(2)];
  const page = pageOf({ embedded: [{ rel: 'parts', documents }] });
  assert.match(page, /<h2>Parts<\/h2>/);
  assert.match(
    page,
    /<tr class="parted"><th scope="row">2<\/th><\/tr><tr><td colspan="1"><details class="fold"><summary>Details<span class="unseen">of 2<\/span></,
  );
  assert.match(page, /<dt>Parts<\/dt><dd><pre class="copyable">/);
  assert.doesNotMatch(page, /<th scope="row"><a/);
});

test('an embedded resource is shown with its own embedded resources', () => {
  const inner = { rel: 'maker', single: true, documents: [{ ...thing(3), links: [] }] };
  const outer = { rel: 'part', single: true, documents: [{ ...thing(4), links: [], embedded: [inner] }] };
  assert.match(pageOf({ embedded: [outer] }), /<h2>Part<\/h2><dl>.*Thing 4.*<h3>Maker<\/h3><dl>.*Thing 3/);
  assert.match(
    pageOf({ embedded: [{ rel: 'discounts', documents: [] }] }),
    /<h2>Discounts<\/h2><p class="soft">None<\/p>/,
  );
});

const called = { name: 'name', kind: 'text', isRequired: true, isMultiple: false } as const;
const create = { name: 'create', title: 'Create a thing', method: 'POST', href: path, fields: [called] } as const;

test('an empty collection says what to do, with the form open', () => {
  const nothing = { ...collection(linksAt('', '', ''), 0, 0, 0), actions: [create] };
  const page = pageOf(nothing, owner);
  assert.match(page, /<p>[^<]*\bthings\b[^<]*<\/p><p class="soft">Create [^<]*<\/p>/);
  assert.match(page, /<details class="card" open><summary>Create a thing/);
  assert.doesNotMatch(page, /<table/);
  assert.doesNotMatch(pageOf(nothing), /Create/);
});

test('an action without fields is a button beside its resource, not a form to open', () => {
  const again = { name: 'again', title: 'Do it again', method: 'POST', href: `${path}/again`, fields: [] } as const;
  const page = pageOf({ embedded: [], actions: [again] }, owner);
  assert.match(page, /<form method="post" action="[^"]*\/again".*<button type="submit"\s*>Do it again<\/button>/);
  assert.doesNotMatch(page, /<summary>Do it again/);
  assert.doesNotMatch(pageOf({ embedded: [], actions: [again] }), /Do it again/);
});

test('a filter without results offers a link to all items', () => {
  const self = '?state=bad&limit=2';
  const page = pageOf(collection(linksAt(self, self, self), 0, 0, 0));
  assert.match(page, /\bthings\b[^<]*<\/p><p><a href="\/things">/);
});

const error = (message: string): Document => ({
  name: 'error',
  links: [],
  embedded: [],
  properties: [text('logref', 'id-1'), text('code', 'invalid'), text('message', message), text('field', 'limit')],
});

test('an error is a message with the reference to its log line', () => {
  const documents = [error('limit is wrong'), error('So is this')];
  const page = pageOf({ name: 'errors', title: 'This cannot be used', embedded: [{ rel: 'errors', documents }] });
  assert.match(
    page,
    /<p class="alert" role="alert">limit is wrong\.<\/p><p class="alert" role="alert">So is this\.<code>limit<\/code>/,
  );
  assert.equal(page.match(/id-1/g)?.length, 1);
  assert.doesNotMatch(page, /<table|<dl/);
});

test('the type is shown above the title, unless both are the same', () => {
  const links = [{ rel: 'self', href: path }];
  assert.match(pageOf({ name: 'webhook', title: 'Orders', links }), /<p class="kind">Webhook<\/p>/);
  assert.doesNotMatch(pageOf({ name: 'home', title: 'Home', links }), /class="kind"/);
});

test('the breadcrumb links are above the heading, and not among the other links', () => {
  const links = [
    { rel: 'store', href: 'https://api.example.com/stores/1', title: 'The store', crumb: 'Shop <1>' },
    { rel: 'things', href: path, title: 'Things', crumb: 'Things' },
  ];
  const [, way = ''] = /<nav class="crumbs"[^>]*>(.*?)<\/nav>/.exec(pageOf({ title: 'One', links })) ?? [];
  assert.equal(way, '<a href="/stores/1">Shop &lt;1&gt;</a><a href="/things">Things</a>');
  assert.doesNotMatch(pageOf({ title: 'One', links }), /class="ways"/);
});

test('progress is a bar with its numbers', () => {
  const seen = (value: number, of: number) =>
    pageOf({ properties: [{ name: 'events_seen', value, kind: 'progress', of }] });
  assert.match(
    seen(1_204, 10_000),
    /<progress value="1204" max="10000" aria-label="Events seen">1,204 of 10,000<\/progress>1,204 of 10,000/,
  );
  assert.doesNotMatch(seen(0, 0), /<progress/);
});

test('the page of what waits is renewed by the script, and has a link in a browser without scripts', () => {
  const page = pageOf({ refreshSeconds: 3, links: linksAt('', '', '') });
  assert.match(page, /<div data-live="3">/);
  assert.match(page, /<noscript><p class="soft"><a href="[^"]+">/);
  assert.doesNotMatch(pageOf({}), /data-live|<noscript>/);
});

test('the last action is reported first', () => {
  assert.match(
    pageOf({}, { ...owner, done: 'It is <made>.' }),
    /<main id="main" tabindex="-1"><p class="good" role="status">It is &lt;made&gt;\.<\/p>/,
  );
});

test('developers find a link to the documentation', () => {
  const page = pageOf({ name: 'webhook', properties: [date('date_created', '2026-11-20T16:05:03+0000')] });
  assert.match(page, /<footer class="soft">.*<a href="\/rels\/webhook">[^<]*“webhook”[^<]*<\/a><a href="\/docs">/);
});

test('the same document renders to the same page', () => {
  const document = collection(linksAt('', '?offset=0', '?offset=0'), 0, 2);
  assert.equal(pageOf(document, owner), pageOf(structuredClone(document), owner));
});

test('a resource with a blank name is named by its id, so that its link can be followed', () => {
  const nameless = { ...thing(7), title: ' ', properties: [number('id', 7), text('name', '   ')] };
  const page = pageOf({ embedded: [{ rel: 'things', documents: [nameless] }] });
  assert.match(page, /<a href="\/things\/7">7<\/a>/);
});

const zoomed = (n: number): Document => ({
  ...thing(n),
  embedded: [{ rel: 'parts', documents: [thing(7), thing(8)] }],
});

test("rows of a list have distinct names for assistive technology, and the heading levels follow the page's", () => {
  const page = pageOf({
    ...collection(linksAt('', '?offset=0', '?offset=0'), 0, 2),
    embedded: [{ rel: 'things', documents: [zoomed(1), zoomed(2)] }],
  });
  const labels = [...page.matchAll(/aria-label="([^"]+)"/g)].map(([, label]) => label);
  assert.deepEqual(labels, ['Things', 'Parts of Thing 1', 'Parts of Thing 2']);
  assert.match(page, /<h2>Parts<\/h2>/);
});

test('the name in the first column does not change the text direction of the rest', () => {
  const named = (name: string): Document => ({ name: 'thing', links: [], embedded: [], properties: [text(name, 'x')] });
  const page = pageOf({ embedded: [{ rel: 'things', documents: [named('a\u202Eb'), named('a\u202Eb')] }] });
  assert.match(page, /<th scope="col">A\uFFFDb<\/th>/);
});

const SENTENCE = 'It was not taken, because the shelf was full for most of that day: empty it, and have it sent again.';
const WHEN = '2026-07-01T10:00:07+0000';

const step = (n: number): Document => ({
  name: 'step',
  links: [
    { rel: 'order', href: 'https://api.example.com/orders/7', title: 'The order' },
    { rel: 'note', href: `https://api.example.com/notes/${n}`, title: `Note ${n}` },
  ],
  embedded: [],
  properties: [
    text('id', `7-${n}`),
    text('resource', 'order 7'),
    text('reason', SENTENCE),
    text.orNull('comment', null),
    text('outcome', 'refused'),
    { ...number('duration', 12), unit: 'ms' },
    number('step', n),
    date('date_created', WHEN),
    code('answer', `<b>line ${n}</b>\n\n`),
  ],
});
const order: Document = {
  name: 'order',
  links: [{ rel: 'customer', href: 'https://api.example.com/orders/7', title: 'Myself' }],
  properties: [text('resource', 'order 7'), text('reason', SENTENCE), date('date_created', WHEN)],
  embedded: [{ rel: 'steps', title: 'What was done', documents: [step(1), step(2)], isTimeline: true }],
};

const timelineOf = (document: Document): string => renderHtml(document, naming).split('<ol class="timeline">')[1] ?? '';
const words = (page: string): string => page.replaceAll(/<[^>]+>/g, ' ').replaceAll(/\s+/g, ' ');

test('each entry shows, in order: outcome and time in one line, the sentence, and the folded response', () => {
  const page = renderHtml(order, naming);
  assert.match(page, /<h2>What was done<\/h2>\s*<ol class="timeline">/);
  const [, first = '', second = ''] = timelineOf(order).split('<li>');
  assert.match(words(first), /^ Refused [^:]*10:00:07 UTC 12 ms Step 1 It was .* Answer /);
  assert.match(words(second), /Step 2 /);
  assert.ok(first.includes('<pre class="copyable">\n&lt;b&gt;line 1&lt;/b&gt;\n\n</pre>'), 'to be copied as it is');
});

test('values common to all entries, unset values and links shown elsewhere are not repeated', () => {
  const steps = timelineOf(order);
  for (const absent of ['order 7', '7-1', 'Comment', 'The order']) assert.ok(!words(steps).includes(absent), absent);
  assert.ok(steps.includes('href="/notes/2"'));
  assert.ok(
    renderHtml({ ...order, embedded: [{ rel: 'steps', documents: [], isTimeline: true }] }, naming).includes('None'),
  );
});
