import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Document, Link } from '../document.ts';
import { render } from '../markup.ts';
import { hrefOf, linkRow, ownPath, programList } from './links.ts';

const naming = { baseUrl: 'https://api.example.com/v', relationPrefix: 'svc' };

const hrefs: readonly (readonly [href: string, shown: string | undefined])[] = [
  ['https://api.example.com/v/stores/1?limit=5&offset=0#x', '/v/stores/1?limit=5&offset=0#x'],
  ['https://api.example.com/token', '/token'],
  ['https://api.example.com', '/'],
  ['/stores/1', '/stores/1'],
  ['https://auth.example.com/authorize', 'https://auth.example.com/authorize'],
  ['https://api.example.com.evil.example/x', 'https://api.example.com.evil.example/x'],
  ['https://api.example.com//evil.example/x', 'https://api.example.com//evil.example/x'],
  ['https://api.example.com@evil.example/x', 'https://api.example.com@evil.example/x'],
  ['//evil.example/x', undefined],
  ['/\\evil.example/x', undefined],
  ['/\t/evil.example/x', undefined],
  ['https://api.example.com/\n/evil.example/x', undefined],
  ['javascript:alert(1)', undefined],
  ['data:text/html,x', undefined],
  [' javascript:alert(1)', undefined],
  ['', undefined],
];

for (const [href, shown] of hrefs) {
  test(`a link to ${JSON.stringify(href)} points to ${shown}`, () => assert.equal(hrefOf(href, naming), shown));
}

test("the server's own addresses are paths below the prefix of the API", () => {
  assert.equal(ownPath('/rels/webhook', naming), '/v/rels/webhook');
});

const withLinks = (links: Link[], rest: Partial<Document> = {}): Document => ({
  name: 'thing',
  links,
  embedded: [],
  properties: [],
  ...rest,
});

function rowOf(document: Document): string {
  const row = linkRow(document, naming, 'Ways');
  return row === false ? '' : render(row).replaceAll(/\s+/g, ' ');
}

test('titles are short, unless two would be equal', () => {
  const links = [
    { rel: 'statuses', href: '/1/statuses', title: 'The deliveries of this webhook' },
    { rel: 'webhooks', href: '/webhooks', title: 'All webhooks of the store' },
    { rel: 'items', href: '/a', title: 'The items of this cart' },
    { rel: 'items', href: '/b', title: 'The items of this order' },
    { rel: 'last_transaction', href: '/c' },
  ];
  const titles = [...rowOf(withLinks(links)).matchAll(/>([^<>]+)<\/a>/g)].map(([, title]) => title);
  const long = ['The items of this cart', 'The items of this order'];
  assert.deepEqual(titles, ['Deliveries', 'Webhooks', ...long, 'Last transaction']);
});

test('paging, templates and the forms of the page are not among the links', () => {
  const rels = ['self', 'first', 'prev', 'next', 'last', 'curies'];
  const links: Link[] = [
    ...rels.map((rel) => ({ rel, href: '/x', title: rel })),
    { rel: 'search', href: '/x{?q}', templated: true },
    { rel: 'test', href: '/1/test', title: 'Send a test' },
  ];
  const action = { name: 'test', title: 'Test', method: 'POST', href: '/1/test', fields: [] } as const;
  assert.equal(rowOf(withLinks(links, { actions: [action] })), '');
});

test('an address without a page is listed and not linked', () => {
  const document = withLinks([{ rel: 'authorize', href: '/authorize', title: 'Ask', isForPrograms: true }]);
  assert.equal(rowOf(document), '');
  assert.notEqual(programList(document, naming), false);
});

test('an address for API clients only is listed and not linked', () => {
  const document = withLinks([{ rel: 'token', href: '/token', title: 'Tokens', type: 'application/json' }]);
  assert.equal(rowOf(document), '');
  const list = programList(document, naming);
  assert.match(list === false ? '' : render(list), /<dt>Tokens<\/dt>\s+<dd><code>\/token<\/code><\/dd>/);
});

test('a link to another host sends no referrer', () => {
  const row = rowOf(withLinks([{ rel: 'site', href: 'https://other.example/', title: 'Site' }]));
  assert.match(row, /href="https:\/\/other\.example\/" rel="noopener noreferrer nofollow"/);
});
