/** The queries on any collection, shown on webhooks and stores: filters, order, fields, and links to pages. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPERATORS, operatorsOf } from '#hypermedia/list-query.ts';
import { STORE_PROPERTIES } from '#stores/store-document.ts';
import { WEBHOOK_PROPERTIES } from '#webhooks/webhook-fields.ts';
import { faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a, b, clock } = await startWebhookApi();
const path = `/stores/${a}/webhooks`;

/** The n-th webhook is created in the n-th second after ten o'clock UTC, plus some milliseconds. */
const webhooks = [
  { name: 'Orders', url: 'https://one.example.com', event_resource: 'transaction', rate_per_second: 5 },
  { name: 'Refunds', is_active: 0 },
  { name: 'orders old', url: 'https://three.example.com', event_resource: 'customer', rate_per_second: 20 },
  { name: '100% off' },
  { name: '100 off' },
  { name: 'a_b' },
  { name: 'axb' },
  { name: String.raw`a\b` },
  { name: '5*5' },
  { name: 'Orders' },
];
const numbers = new Map<unknown, number>();
for (const [index, webhook] of webhooks.entries()) {
  clock.time = new Date(Date.UTC(2026, 6, 1, 10, 0, index + 1, 400));
  const { body } = await call('POST', path, { body: { ...minimal, ...webhook } });
  numbers.set(body['id'], index + 1);
}
clock.time = new Date('2026-07-02T10:00:00Z');
const all = [...numbers.values()];
const except = (...left: number[]): number[] => all.filter((n) => !left.includes(n));

/** Returns the webhooks that a query finds, by their numbers. */
async function find(query: string) {
  const { status, body } = await call('GET', `${path}${query}`);
  assert.equal(status, 200, query);
  return { body, found: (body._embedded['svc:webhooks'] ?? []).map((item) => numbers.get(item['id'])) };
}

const filters: [string, number[]][] = [
  ['name=Orders', [1, 10]],
  ['name=orders', []],
  ['name:not=Orders', except(1, 10)],
  ['name=*order*', [1, 3, 10]],
  ['name:not=*order*', except(1, 3, 10)],
  ['name=100%25*', [4]],
  ['name=a_*', [6]],
  ['name=a*b', [6, 7, 8]],
  [String.raw`name=a\\*`, [8]],
  [String.raw`name=a\b`, [8]],
  [String.raw`name=5\*5`, [9]],
  [String.raw`name=*\**`, [9]],
  ['name=*', all],
  ['url=', except(1, 3)],
  ['url:not=', [1, 3]],
  ['event_resource=customer', [3]],
  ['event_resource:not=customer', except(3)],
  ['is_active=0', [2]],
  ['is_active=false', [2]],
  ['is_active:not=1', [2]],
  ['is_active=true', except(2)],
  ['rate_per_second=5', [1]],
  ['rate_per_second:not=5', except(1)],
  ['rate_per_second:greaterthan=5', [3]],
  ['rate_per_second:lessthan=20', [1]],
  ['rate_per_second:lessthan=20.5', [1, 3]],
  ['rate_per_second:greaterthanorequal=5', [1, 3]],
  ['rate_per_second:greaterthanorequal=5.5', [3]],
  ['rate_per_second:lessthanorequal=5', [1]],
  ['rate_per_second:in=4,5,6.5', [1]],
  ['rate_per_second:in=20,5', [1, 3]],
  ['rate_per_second:in=5,', except(3)],
  ['rate_per_second:isnull=1', except(1, 3)],
  ['rate_per_second:isnull=false', [1, 3]],
  ['name:in=Orders,a_b', [1, 6, 10]],
  ['name:in=*order*,a_b,*%25*', [1, 3, 4, 6, 10]],
  ['event_resource:in=customer,', except(1)],
  ['is_active:in=0,1', all],
  ['is_active:in=false', [2]],
  ['is_active:isnull=1', []],
  ['rate_per_second=', except(1, 3)],
  ['rate_per_second:not=', [1, 3]],
  // The way a date is shown, the plus not encoded.
  ['date_created=2026-07-01T12:00:03+0200', [3]],
  ['date_created=2026-07-01T10:00:03Z', [3]],
  ['date_created:not=2026-07-01T10:00:03Z', except(3)],
  ['date_created:greaterthan=2026-07-01T12:00:08%2B02:00', [9, 10]],
  ['date_created:greaterthan=9999-12-31T23:59:59Z', []],
  ['date_created=9999-12-31T23:59:59Z', []],
  ['date_created:lessthan=9999-12-31T23:59:59Z', all],
  ['date_created:lessthan=2026-07-01T12:00:03%2B0200', [1, 2]],
  ['date_created:greaterthan=2026-07-01', all],
  ['date_created:lessthan=2026-07-01', []],
  ['date_created:greaterthan=2026-07-01T10:00:02Z&date_created:lessthan=2026-07-01T10:00:05Z', [3, 4]],
  ['date_created:greaterthanorequal=2026-07-01T10:00:09Z', [9, 10]],
  ['date_created:lessthanorequal=2026-07-01T12:00:02+0200', [1, 2]],
  ['date_created:lessthanorequal=9999-12-31T23:59:59Z', all],
  ['date_created:in=2026-07-01T10:00:09Z,2026-07-01T10:00:02Z,2026-07-01', [2, 9]],
  ['date_created:isnull=0', all],
  ['date_created:lessthan=9999-12-31', all],
  // The others have no url, and nothing is sent to them either.
  ['state=inactive', except(1, 3)],
  ['state:not=inactive', [1, 3]],
  ['name=*order*&is_active=1&rate_per_second:greaterthan=1', [1, 3]],
];
for (const [query, expected] of filters) {
  test(`${query} finds the matching ones and counts them`, async () => {
    const { body, found } = await find(`?${query}`);
    assert.deepEqual([found, body['total_items']], [expected, String(expected.length)]);
  });
}

test('webhooks can be filtered by the state that they show', async () => {
  const troubled = [...numbers].find(([, n]) => n === 3)?.[0];
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until)
    values (${a % 256}, ${Number(troubled)}, 0, 1, ${clock.time}, null)`;
  const states = await Promise.all(
    ['failing', 'ok', 'paused'].map(async (state) => (await find(`?state=${state}`)).found),
  );
  assert.deepEqual(states, [[3], [1], []]);
});

const orders: [string, (number | undefined)[]][] = [
  ['id desc', all.toReversed()],
  ['date_created desc', all.toReversed()],
  ['rate_per_second', [1, 3, ...except(1, 3)]],
  ['rate_per_second desc', [...except(1, 3).toReversed(), 3, 1]],
  ['is_active', [2, ...except(2)]],
  ['is_active,id desc', [2, ...except(2).toReversed()]],
  ['is_active desc', [...except(2).toReversed(), 2]],
];
for (const [order, expected] of orders) {
  test(`order=${order} sorts so, and breaks ties by id in the direction of the last property`, async () => {
    assert.deepEqual((await find(`?order=${order}`)).found, expected);
  });
}

test('the pages of an order with ties repeat no item and skip none', async () => {
  const met: unknown[] = [];
  for (let at = '?order=is_active desc&limit=3'; ;) {
    const { body, found } = await find(at);
    met.push(...found);
    const next = new URL(body._links['next']?.href ?? '').search;
    if (next === new URL(body._links['self']?.href ?? '').search) break;
    at = next;
  }
  assert.deepEqual(met, [...except(2).toReversed(), 2]);
});

test('the links to pages keep all other parameters', async () => {
  const query = 'name=*o*&is_active=1&date_created:greaterthan=2026-07-01T12:00:00+0200&order=name desc&fields=name';
  const { body } = await find(`?${query}&limit=2&offset=2`);
  for (const rel of ['self', 'first', 'prev', 'next', 'last']) {
    const kept = new URL(body._links[rel]?.href ?? '').searchParams;
    kept.delete('offset');
    assert.deepEqual([...kept], [...new URLSearchParams(`${query}&limit=2`)], rel);
  }
});

test('fields leaves out the other properties of each item, but not its links', async () => {
  const [whole] = (await find('?limit=1')).body._embedded['svc:webhooks'] ?? [];
  const [part] = (await find('?limit=1&fields=name,url')).body._embedded['svc:webhooks'] ?? [];
  assert.deepEqual(part, { _links: whole?._links, name: 'Orders', url: 'https://one.example.com' });
});

const refused: [string, string[]][] = [
  ['?encryption_key=*', ['encryption_key invalid_parameter']],
  ['?order=encryption_key', ['order invalid_parameter']],
  ['?order=events', ['order invalid_parameter']],
  ['?zoom=store', ['zoom unknown_parameter']],
  [
    '?/name/x=1&name:isnull=x&id:in=1,x',
    ['/name/x invalid_parameter', 'name:isnull invalid_parameter', 'id:in invalid_parameter'],
  ],
  ['?name=a&name=b', ['name duplicate_parameter']],
  ['?name=%ff', ['name malformed_request']],
  [
    '?colour=red&is_active=maybe&date_created:lessthan=soon&limit=0&order=size&fields=weight',
    [
      'colour unknown_parameter',
      'is_active invalid_parameter',
      'date_created:lessthan invalid_parameter',
      'limit invalid_parameter',
      'order unknown_property',
      'fields unknown_property',
    ],
  ],
];
for (const [query, faults] of refused) {
  test(`${query} is rejected with every error`, async () => {
    const reply = await call('GET', path + query);
    assert.deepEqual([reply.status, ...faultsIn(reply)], [400, ...faults]);
  });
}

const attacks = [
  "' or '1'='1",
  "'; delete from webhook; --",
  '$1',
  '${1}',
  String.raw`\' or true --`,
  '%',
  '_',
  '1 or 1=1',
  '\u0000',
];
for (const attack of attacks) {
  test(`${JSON.stringify(attack)} is a value that no row has, or an unknown name`, async () => {
    const text = encodeURIComponent(attack);
    const asValue = await call('GET', `${path}?name=${text}`);
    assert.ok(asValue.status === 400 || asValue.body['total_items'] === '0');
    for (const query of [
      `id=${text}`,
      `order=${text}`,
      `order=name ${text}`,
      `fields=${text}`,
      `name:${text}=1`,
      `${text}=1`,
    ]) {
      assert.equal((await call('GET', `${path}?${query}`)).status, 400, query);
    }
    assert.equal((await find('')).body['total_items'], String(all.length));
  });
}

const collections = [
  { address: path, rel: 'svc:webhooks', properties: WEBHOOK_PROPERTIES },
  { address: '/stores', rel: 'svc:stores', properties: STORE_PROPERTIES },
];
const samples = { text: 'x', number: '7', boolean: '1', date: '2026-11-20' };
for (const { address, rel, properties } of collections) {
  test(`${rel} can be filtered and ordered by every property of an item except secrets and objects`, async () => {
    const [item] = (await call('GET', address)).body._embedded[rel] ?? [];
    const { _links, _embedded, ...shown } = item ?? {};
    assert.deepEqual(Object.keys(properties), Object.keys(shown));
    for (const [name, comparison] of Object.entries(properties)) {
      const sample = comparison === 'none' ? 'x' : samples[comparison];
      const possible: readonly string[] = operatorsOf(comparison);
      const filtered = OPERATORS.map((operator) => `${name}:${operator}=${operator === 'isnull' ? '1' : sample}`);
      for (const query of [`order=${name} desc`, `${name}=${sample}`, `${name}=`, ...filtered]) {
        const { status } = await call('GET', `${address}?${query}`);
        const isPossible =
          comparison !== 'none' && (!query.includes(':') || possible.includes(/:(\w+)=/.exec(query)?.[1] ?? ''));
        assert.equal(status, isPossible ? 200 : 400, query);
      }
    }
  });
}

test('the list of stores is filtered within those that the caller can access', async () => {
  const found = async (token: 'a' | 'user' | 'platform', query: string) =>
    ((await call('GET', `/stores?${query}`, { token })).body._embedded['svc:stores'] ?? []).map((store) => store['id']);
  assert.deepEqual(await found('user', 'order=name desc'), [b, a]);
  assert.deepEqual(await found('user', 'time_zone:greaterthan=M'), [b]);
  assert.deepEqual(await found('platform', 'domain=alpha*'), [a]);
  assert.deepEqual(await found('a', 'name:not=nothing'), [a]);
});
