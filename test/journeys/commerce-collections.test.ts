/** The collections of published resources and of embedded ones: pages, order, filters, zoom. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RANGES } from '#core/listing.ts';
import { startTestApp } from '../setup/app.ts';
import { openSecondStore } from '../setup/second-store.ts';

const app = await startTestApp({ roles: ['serve'] });
const second = await openSecondStore(app);
const { storeId, platformToken } = app;
const transactions = `/stores/${storeId}/transactions`;

type Json = Record<string, unknown>;
type Links = Record<string, { href: string; title?: string }>;
type Page = Json & { _links: Links; _embedded: Record<string, (Json & { _links: Links })[]> };

async function publish(event: string, resources: readonly Json[], store = storeId) {
  const body = resources.map((resource) => ({ event, resource }));
  assert.equal((await app.api('POST', `/stores/${store}/events`, { token: platformToken, body })).status, 200);
}
async function get(path: string, token?: string) {
  const response = await app.api('GET', path, token === undefined ? {} : { token });
  return { status: response.status, body: (await response.json()) as Page, etag: response.headers.get('etag') };
}
const faultsOf = (body: Page) => (body._embedded['svc:errors'] ?? []).map(({ field, code }) => [field, code].join(' '));
async function list(query = '', path = transactions) {
  const { status, body } = await get(path + query);
  assert.equal(status, 200, JSON.stringify(body));
  return { body, items: body._embedded[`svc:${path.split('/').at(-1)}`] ?? [] };
}
const idsOf = async (query: string) => (await list(query)).items.map(({ id }) => id);

const items = [
  { name: 'Brush', price: 9, _embedded: { 'svc:item_options': [{ name: 'red' }] } },
  { name: 'Comb', price: 10 },
  { name: 'Soap', price: 8.5 },
];
const day = (n: number) => `2026-11-${String(n).padStart(2, '0')}T10:00:00+0000`;

await publish('transaction/created', [
  { id: 9, total: 100, note: 'nine', is_test: true, zip: '0123', date_created: day(3), date_modified: day(20) },
  { id: 10, total: 20, note: 'ten', is_test: false, zip: '123', date_created: day(1), date_modified: day(22) },
  { id: 1, total: 3, note: '', zip: '99', date_created: '2026-02-30', date_modified: day(21), _embedded: { items } },
  {
    id: 'B-7',
    total: '7.50',
    note: null,
    date_created: 'soon',
    date_modified: day(19),
    _embedded: { customer: { id: 5 } },
  },
]);
for (const total of [1, 2]) await publish('transaction/modified', [{ id: 11, total, date_modified: day(23) }]);
await publish('customer/created', [{ id: 1, email: 'a@example.com' }]);
await publish('transaction/created', [{ id: 500, total: 1 }], second.storeId);

test('the latest versions are listed with ids in numeric order', async () => {
  const { body, items: found } = await list();
  assert.deepEqual(
    found.map(({ id, total }) => [id, total]),
    [
      [1, 3],
      [9, 100],
      [10, 20],
      [11, 2],
      ['B-7', '7.50'],
    ],
  );
  assert.deepEqual([body['total_items'], body['returned_items']], ['5', 5]);
  assert.equal(body._links['svc:store']?.href, `${app.baseUrl}/stores/${storeId}`);
});

test('each kind of resource has a collection, also an empty one', async () => {
  assert.deepEqual(
    (await list('', `/stores/${storeId}/customers`)).items.map(({ email }) => email),
    ['a@example.com'],
  );
  assert.equal((await list('', `/stores/${storeId}/subscription_mrr_snapshots`)).body['total_items'], '0');
});

test('an item of the collection equals the resource itself', async () => {
  for (const item of (await list('?zoom=items:item_options,customer')).items) {
    const self = item._links['self']?.href ?? '';
    assert.deepEqual(item, (await get(`${self}?zoom=items:item_options,customer`)).body);
  }
});

test('following next visits each resource once', async () => {
  const ids: unknown[] = [];
  for (let at = `${transactions}?limit=2`; ;) {
    const { body } = await get(at);
    ids.push(...(body._embedded['svc:transactions'] ?? []).map(({ id }) => id));
    const next = body._links['next']?.href ?? '';
    if (next === body._links['self']?.href) break;
    at = next;
  }
  assert.deepEqual(ids, [1, 9, 10, 11, 'B-7']);
});

test('past the end there is an empty page with the total', async () => {
  const { body, items: found } = await list('?offset=100');
  assert.deepEqual([body['total_items'], found], ['5', []]);
});

const found: readonly (readonly [query: string, ids: readonly unknown[]])[] = [
  ['?order=id desc', ['B-7', 11, 10, 9, 1]],
  ['?order=total', [11, 1, 'B-7', 10, 9]],
  ['?order=total desc', [9, 10, 'B-7', 1, 11]],
  ['?order=note&limit=2', [9, 10]],
  ['?order=date_modified&limit=4', ['B-7', 9, 1, 10]],
  ['?order=date_created', [10, 9, 1, 'B-7', 11]],
  ['?id=10', [10]],
  ['?id=B-7', ['B-7']],
  ['?id:greaterthan=9&id:lessthan=11', [10]],
  ['?total=20', [10]],
  ['?total:greaterthan=7', [9, 10, 'B-7']],
  ['?total:lessthan=7.5', [1, 11]],
  ['?note=nine', [9]],
  ['?note=*N*', [9, 10]],
  ['?note:not=*n*', [1, 11, 'B-7']],
  ['?note=', [1, 11, 'B-7']],
  ['?note:not=', [9, 10]],
  ['?zip=0123', [9]],
  ['?zip=123', [10]],
  ['?is_test=1', [9]],
  ['?is_test=false', [10]],
  ['?date_created:lessthan=2026-11-02', [10]],
  ['?date_created=2026-11-03T11:00:00%2B0100', [9]],
  ['?date_modified:greaterthan=2026-11-21', [1, 10, 11]],
  ['?total:greaterthan=7&is_test:not=1&order=total', ['B-7', 10]],
  ['?id:greaterthanorequal=9&id:lessthanorequal=10', [9, 10]],
  ['?id:in=10,B-7,12', [10, 'B-7']],
  ['?total:in=20,3,7.50', [1, 10, 'B-7']],
  ['?zip:in=0123,9*,', [1, 9, 11, 'B-7']],
  ['?note:isnull=0&total:lessthanorequal=20', [10]],
  ['?date_modified:in=2026-11-19T10:00Z,2026-11-22T10:00Z', [10, 'B-7']],
  ['?/_embedded/svc:items/1/name=Comb', [1]],
  ['?/_embedded/items/0/_embedded/item_options/0/name:in=blue,red', [1]],
  ['?/_embedded/customer/id:greaterthanorequal=5', ['B-7']],
  ['?/_embedded/items/-1/name:isnull=0', []],
  ['?/_embedded/items/01/name:isnull=0', []],
  ['?order=/_embedded/items/0/price&/total:lessthan=20', [1, 11, 'B-7']],
  ['?colour=red', []],
  ['?unit-price:greaterthan=1', []],
];
for (const [query, ids] of found) {
  test(`${query} finds ${ids.join(', ') || 'nothing'}`, async () => {
    const { body, items: page } = await list(query);
    assert.deepEqual(
      page.map(({ id }) => id),
      ids,
    );
    if (!query.includes('limit')) assert.equal(body['total_items'], String(ids.length));
  });
}

test('a pattern ignores the case of all letters of an id', async () => {
  await publish('customer/created', [{ id: 'Ähre' }]);
  const { items: page } = await list(`?id=${encodeURIComponent('*äH*')}`, `/stores/${storeId}/customers`);
  assert.deepEqual(
    page.map(({ id }) => id),
    ['Ähre'],
  );
});

test('fields keeps the named properties of each item, and its links', async () => {
  const [first] = (await list('?fields=id,total&limit=1')).items;
  const { _links: links, ...properties } = first ?? { _links: {} };
  assert.deepEqual(properties, { id: 1, total: 3 });
  assert.ok(links['svc:items']);
});

const refused: readonly (readonly [query: string, fault: string])[] = [
  ['?zoom=wings', 'zoom unknown_relation'],
  ['?limit=301', 'limit invalid_parameter'],
  ['?date_created=soon', 'date_created invalid_parameter'],
  ['?total:about=3', 'total:about unknown_parameter'],
  ['?my name=3', 'my name unknown_parameter'],
  ['?_embedded=*brush*', '_embedded unknown_parameter'],
  ['?links=self', 'links unknown_parameter'],
  ['?order=_links', 'order unknown_property'],
  ['?/a~2=1', '/a~2 unknown_parameter'],
  ['?total:isnull=maybe', 'total:isnull invalid_parameter'],
];
for (const [query, fault] of refused) {
  test(`${query} is rejected`, async () => {
    const { status, body } = await get(transactions + query);
    assert.deepEqual([status, ...faultsOf(body)], [400, fault]);
  });
}

test('resources are found by what they belong to as by any other member with the same value', async () => {
  const long = '🚚'.repeat(70);
  const values = [7, '7', 7.5, 0, 1, true, false, null, '', 'C-7', 'null', long, `${long}x`, { id: 7 }, [7]];
  const path = (query: string) => `/stores/${second.storeId}/subscriptions?limit=300&${query}`;
  const findBy = async (member: string, value: string) => {
    const { status, body } = await get(path(`${member}=${encodeURIComponent(value)}`), second.token);
    assert.equal(status, 200);
    return [body['total_items'], (body._embedded['svc:subscriptions'] ?? []).map(({ id }) => id)];
  };
  const written = values.map((value, at) => ({ id: 100 + at, customer_id: value, other: value, status: 'active' }));
  await publish('subscription/created', written, second.storeId);
  // An update may change what a resource belongs to.
  await publish('subscription/modified', [{ id: 100, customer_id: 'C-7', other: 'C-7' }], second.storeId);
  for (const value of [
    '7',
    '7.5',
    '0',
    '1',
    'true',
    'false',
    'null',
    'C-7',
    'c-7',
    '',
    long,
    `${long}x`,
    '*7',
    '{"id":7}',
  ])
    assert.deepEqual(await findBy('customer_id', value), await findBy('other', value), value);
  assert.deepEqual(await findBy('customer_id', 'C-7'), ['2', [100, 109]]);
  assert.equal((await findBy('customer_id', '7'))[0], '1');
});

test('filters on date_modified find what the same filters on any other date find', async () => {
  const moments = [
    '1999-12-31T23:59:59',
    '2019-12-31T23:59:59',
    '2020-01-01T00:00:00',
    '2024-02-29T12:00:00',
    '2026-11-19T23:59:59',
    '2026-11-20T00:00:00',
    '2026-11-20T00:00:01',
    '2109-09-18T00:00:00',
    '2250-01-01T00:00:00',
  ];
  const path = `/stores/${second.storeId}/customers`;
  const written = moments.map((at, id) => ({ id: 900 + id, date_modified: `${at}+0000`, other: `${at}+0000` }));
  await publish('customer/created', written, second.storeId);
  // Then modified on another day, and on the same day.
  for (const at of ['2026-11-21T08:00:00+0000', '2026-11-21T09:00:00+0000'])
    await publish('customer/modified', [{ id: 903, date_modified: at, other: at }], second.storeId);
  const findBy = async (filters: readonly string[]) => {
    const { status, body } = await get(`${path}?limit=300&${filters.join('&')}`, second.token);
    assert.equal(status, 200);
    return [body['total_items'], (body._embedded['svc:customers'] ?? []).map(({ id }) => id)];
  };
  const bounds = [...moments, '2026-11-21T08:30:00'];
  for (const operator of ['', ':not', ':in', ...RANGES.map((range) => `:${range}`)])
    for (const at of bounds) {
      const filters = (member: string) => [`${member}${operator}=${at}`, 'id:greaterthan=899'];
      assert.deepEqual(await findBy(filters('date_modified')), await findBy(filters('other')), `${operator} ${at}`);
    }
  // Neighbours, the same bound twice, and the widest ones, also the wrong way round.
  for (const [at, from] of bounds.entries())
    for (const to of new Set([
      ...bounds.slice(Math.max(0, at - 1), at + 2),
      ...bounds.slice(0, 1),
      ...bounds.slice(-1),
    ])) {
      const filters = (member: string) => [`${member}:greaterthan=${from}`, `${member}:lessthan=${to}`];
      const same = [await findBy(filters('date_modified')), await findBy(filters('other'))];
      assert.deepEqual(same[0], same[1], `${from} to ${to}`);
    }
  for (const first of bounds.slice(3)) {
    const filters = (member: string) => [`${member}:in=${first},2019-12-31T23:59:59,2026-11-20`, 'id:greaterthan=899'];
    assert.deepEqual(await findBy(filters('date_modified')), await findBy(filters('other')), first);
  }
  const ofADay = ['date_modified:greaterthan=2026-11-20T23:59:59', 'date_modified:lessthan=2026-11-22'];
  assert.deepEqual(await findBy(ofADay), ['1', [903]]);
});

test('a name with SQL in it is only a name', async () => {
  assert.deepEqual(await idsOf("?note='; drop table resource; --"), []);
  assert.equal((await idsOf("?order=note'--")).length, 5);
  assert.equal((await idsOf('')).length, 5);
});

test('a list has no resource of another store on the same shard', async () => {
  const neighbour = storeId + 256;
  await app.sql`
    insert into resource (shard, store_id, type, id, version, modified_at, event_id, time_zone, base_url, body)
    values (${storeId % 256}, ${neighbour}, 'transaction', '700', 1, now(), 1, 'UTC', '', '{"id":700}')`;
  const { body } = await list('?id=700');
  assert.deepEqual([body['total_items'], body['returned_items']], ['0', 0]);
  assert.equal((await list()).body['total_items'], '5');
});

test('an unknown collection, and one of no store, is a 404 for the platform too', async () => {
  for (const path of [`/stores/${storeId}/wings`, `/stores/${storeId + 256}/transactions`, '/stores/x/transactions']) {
    assert.equal((await get(path, platformToken)).status, 404, path);
  }
});

test('a search that takes too long is rejected with what to change', async () => {
  const limited = await startTestApp({ roles: ['serve'], env: { SEARCH_LIMIT_MS: '400' } });
  const hold = await limited.sql.reserve();
  try {
    await hold`begin`;
    await hold`lock table resource in access exclusive mode`;
    const response = await limited.api('GET', `/stores/${limited.storeId}/transactions?note=nine`);
    assert.equal(response.status, 400);
    assert.match(await response.text(), /"code": ?"too_much_to_search".* 400 ms/s);
  } finally {
    await hold`rollback`;
    hold.release();
  }
});

test('a relation to many is a collection, with zoom, fields, order and filters', async () => {
  const path = `${transactions}/1/items`;
  const { body, items: all } = await list('', path);
  assert.deepEqual([body['total_items'], all], ['3', items.map(({ name, price }) => ({ name, price }))]);
  assert.equal(body._links['svc:transaction']?.href, `${app.baseUrl}${transactions}/1`);
  assert.deepEqual((await list('?zoom=item_options&limit=1', path)).items[0]?.['_embedded'], {
    'svc:item_options': [{ name: 'red' }],
  });
  assert.deepEqual((await list('?order=price desc&price:greaterthan=8.5&fields=name', path)).items, [
    { name: 'Comb' },
    { name: 'Brush' },
  ]);
  const filtered = '?/_embedded/item_options/0/name=red&price:in=9,10&order=/_embedded/item_options/0/name';
  assert.deepEqual((await list(filtered, path)).items, [{ name: 'Brush', price: 9 }]);
  assert.deepEqual(faultsOf((await get(`${path}?zoom=customer`)).body), ['zoom unknown_relation']);
});

test('zoom embeds what an embedded resource embeds, wherever it is read', async () => {
  const customer = { id: 5, _embedded: { default_billing_address: { city: 'Kiel' } } };
  await publish('transaction/created', [{ id: 'zoomed', _embedded: { customer } }]);
  const path = `${transactions}/zoomed`;
  const events = await list('?resource_id=zoomed', `/stores/${storeId}/events`);
  const payload = new URL(events.items[0]?._links['svc:payload']?.href ?? '').pathname;
  const nested = { 'svc:default_billing_address': { city: 'Kiel' } };
  for (const address of [path, payload]) {
    const { body } = await get(`${address}?zoom=customer:default_billing_address`);
    assert.deepEqual(body._embedded, { 'svc:customer': { id: 5, _embedded: nested } });
  }
  const listed = await list('?id=zoomed&zoom=customer:default_billing_address');
  assert.deepEqual(listed.items[0]?.['_embedded'], { 'svc:customer': { id: 5, _embedded: nested } });
  assert.deepEqual((await get(`${path}/customer?zoom=default_billing_address`)).body._embedded, nested);
});

test('a relation to one resource is that resource', async () => {
  const { body } = await get(`${transactions}/B-7/customer`);
  assert.equal(body['id'], 5);
  assert.equal(body._links['self']?.href, `${app.baseUrl}${transactions}/B-7/customer`);
  assert.deepEqual(faultsOf((await get(`${transactions}/B-7/customer?limit=1`)).body), ['limit unknown_parameter']);
});

test('every link of a resource can be followed, whatever its publisher has embedded', async () => {
  for (const id of [1, 9, 'B-7']) {
    const { body } = await get(`${transactions}/${id}`);
    for (const [rel, link] of Object.entries(body._links)) {
      // Actions on a resource take a POST and cannot be read.
      if (rel !== 'curies') assert.equal((await get(link.href)).status, rel === 'svc:send_webhooks' ? 405 : 200, rel);
    }
  }
  const { body } = await get(`${transactions}/9/folder`);
  assert.deepEqual(Object.keys(body), ['_links']);
});

test('embedded resources are answered with the names they were stored with, after a move of the store as well', async () => {
  const old = 'https://old.example.com';
  await app.sql`
    update resource set base_url = ${old} where shard = ${storeId % 256} and store_id = ${storeId} and id = 'B-7'`;
  for (const relation of ['items', 'customer']) {
    const { body } = await get(`${transactions}/B-7/${relation}`);
    const curies = body._links['curies'] as unknown as readonly { href: string }[];
    assert.equal(curies[0]?.href, `${old}/rels/{rel}`, relation);
    assert.match(body._links['svc:transaction']?.href ?? '', new RegExp(`^${old}/stores/`), relation);
  }
});

test('a relation that a transaction does not have is a 404', async () => {
  for (const path of ['9/wings', '9/transaction_template', '12345/items', '12345/customer']) {
    assert.equal((await get(`${transactions}/${path}`)).status, 404, path);
  }
});

test('the entity tag of a resource has its version', async () => {
  assert.match((await get(`${transactions}/11`)).etag ?? '', /^"2-/);
});
