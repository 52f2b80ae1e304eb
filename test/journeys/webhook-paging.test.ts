/** A store's webhooks, page by page: the members, the five links, and the query parameters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BASE_URL, faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, a } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;
const TOTAL = 45;

test('an empty store has one empty page whose links all lead to itself', async () => {
  const { status, body } = await call('GET', path);
  assert.equal(status, 200);
  const { _links: links, ...rest } = body;
  assert.deepEqual(rest, {
    _embedded: { 'svc:webhooks': [] },
    total_items: '0',
    returned_items: 0,
    limit: 20,
    offset: 0,
  });
  const { self, first, prev, next, last } = links;
  assert.equal(self?.href, BASE_URL + path);
  for (const link of [first, prev, next, last]) assert.equal(link?.href, `${BASE_URL}${path}?offset=0`);
});

test(`${TOTAL} webhooks are created`, async () => {
  for (let i = 0; i < TOTAL; i += 1) {
    assert.equal((await call('POST', path, { body: { ...minimal, name: `Hook ${i}` } })).status, 201);
  }
});

const pages: [string, { offset: number; limit: number; returned: number; prev: string; next: string; last: string }][] =
  [
    ['', { offset: 0, limit: 20, returned: 20, prev: '?offset=0', next: '?offset=20', last: '?offset=40' }],
    ['?offset=0', { offset: 0, limit: 20, returned: 20, prev: '?offset=0', next: '?offset=20', last: '?offset=40' }],
    ['?offset=20', { offset: 20, limit: 20, returned: 20, prev: '?offset=0', next: '?offset=40', last: '?offset=40' }],
    ['?offset=40', { offset: 40, limit: 20, returned: 5, prev: '?offset=20', next: '?offset=40', last: '?offset=40' }],
    ['?offset=5', { offset: 5, limit: 20, returned: 20, prev: '?offset=0', next: '?offset=25', last: '?offset=40' }],
    [
      '?limit=45',
      {
        offset: 0,
        limit: 45,
        returned: 45,
        prev: '?limit=45&offset=0',
        next: '?limit=45&offset=0',
        last: '?limit=45&offset=0',
      },
    ],
    [
      '?limit=10&offset=30',
      {
        offset: 30,
        limit: 10,
        returned: 10,
        prev: '?limit=10&offset=20',
        next: '?limit=10&offset=40',
        last: '?limit=10&offset=40',
      },
    ],
    [
      '?limit=300',
      {
        offset: 0,
        limit: 300,
        returned: 45,
        prev: '?limit=300&offset=0',
        next: '?limit=300&offset=0',
        last: '?limit=300&offset=0',
      },
    ],
    [
      '?offset=1000',
      { offset: 1000, limit: 20, returned: 0, prev: '?offset=40', next: '?offset=1000', last: '?offset=40' },
    ],
  ];
for (const [query, expected] of pages) {
  test(`the page ${query || 'without a query'}`, async () => {
    const { body } = await call('GET', path + query);
    const { _links: links, _embedded: embedded, ...members } = body;
    const { returned, prev, next, last, offset, limit } = expected;
    assert.deepEqual(members, { total_items: String(TOTAL), returned_items: returned, limit, offset });
    assert.equal(embedded['svc:webhooks']?.length, returned);
    const rels = ['self', 'first', 'prev', 'next', 'last', 'svc:store', 'svc:event_types', 'svc:receiving'];
    assert.deepEqual(Object.keys(links), ['curies', ...rels]);
    assert.ok(['self', 'first', 'prev', 'next', 'last'].every((rel) => links[rel]?.title));
    const at = (part: string) => BASE_URL + path + part;
    assert.deepEqual(
      [links['self']?.href, links['prev']?.href, links['next']?.href, links['last']?.href],
      [at(query), at(prev), at(next), at(last)],
    );
  });
}

test('following next until a page links to itself visits every webhook once, in the order of their ids', async () => {
  const ids: unknown[] = [];
  let at = `${path}?limit=7`;
  for (;;) {
    const { body } = await call('GET', at);
    ids.push(...(body._embedded['svc:webhooks'] ?? []).map((webhook) => webhook['id']));
    const next = body._links['next']?.href ?? '';
    if (next === body._links['self']?.href) break;
    at = next;
  }
  assert.equal(new Set(ids).size, TOTAL);
  assert.deepEqual(
    ids,
    ids.toSorted((x, y) => Number(x) - Number(y)),
  );
});

test('an item of the collection equals the webhook itself', async () => {
  const { body } = await call('GET', `${path}?limit=1`);
  const [item] = body._embedded['svc:webhooks'] ?? [];
  assert.deepEqual(item, (await call('GET', item?._links['self']?.href ?? '')).body);
});

const refused: [string, string[]][] = [
  ['?offset=-1', ['offset invalid_parameter']],
  ['?offset=x', ['offset invalid_parameter']],
  ['?limit=0', ['limit invalid_parameter']],
  ['?limit=301', ['limit invalid_parameter']],
  ['?limit=', ['limit invalid_parameter']],
  ['?limit=1&limit=2', ['limit duplicate_parameter']],
  ['?colour=red', ['colour unknown_parameter']],
  ['?zoom=store', ['zoom unknown_parameter']],
  [
    '?limit=0&offset=-1&x=1&y=2',
    ['x unknown_parameter', 'y unknown_parameter', 'offset invalid_parameter', 'limit invalid_parameter'],
  ],
];
for (const [query, faults] of refused) {
  test(`${query} is rejected`, async () => {
    const reply = await call('GET', path + query);
    assert.deepEqual([reply.status, ...faultsIn(reply)], [400, ...faults]);
  });
}

test('a webhook has nothing to embed by zoom', async () => {
  const { body } = await call('GET', `${path}?limit=1`);
  const self = body._embedded['svc:webhooks']?.[0]?._links['self']?.href ?? '';
  const reply = await call('GET', `${self}?zoom=store`);
  assert.deepEqual([reply.status, ...faultsIn(reply)], [400, 'zoom unknown_parameter']);
});
