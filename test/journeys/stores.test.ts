/** Stores over the API: created and erased by the platform, changed by each caller that can access them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { faultsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { call, sql, alpha, beta, foreign, store, account, platformToken: platform } = people;

const shop = { name: 'New', domain: 'New.example.com', email: 'new@example.com', time_zone: 'europe/berlin' };
const made = () => call('POST', '/stores', { token: platform, body: shop });

test('the platform creates a store, which is read at the address of the answer', async () => {
  const { status, headers, body } = await made();
  assert.equal(status, 201);
  const address = `${ISSUER}/stores/${String(body['id'])}`;
  assert.deepEqual([headers.get('location'), body._links['self']?.href], [address, address]);
  const { _links, id, ...details } = body;
  assert.deepEqual(details, {
    name: 'New',
    domain: 'new.example.com',
    email: 'new@example.com',
    time_zone: 'Europe/Berlin',
    subscription_events: 'derived',
    second_factor: 'optional',
    is_sandbox: false,
    date_created: '2026-07-01T12:00:00+0200',
    date_modified: '2026-07-01T12:00:00+0200',
  });
  assert.deepEqual((await call('GET', address, { token: platform })).body, { ...body, id, _links });
});

test('a store links to all its collections', async () => {
  const { body } = await call('GET', `/stores/${alpha}`, { token: store });
  const below = Object.entries(body._links).flatMap(([rel, { href }]) =>
    rel.startsWith('svc:') ? [[rel.slice(4), href]] : [],
  );
  const names = ['overview', 'statuses', 'webhooks', 'events', 'members', 'transactions', 'subscriptions', 'customers'];
  const more = ['transaction_logs', 'changelogs', 'apps', 'subscription_events', 'subscription_mrr_snapshots'];
  assert.deepEqual(
    below,
    [...names, ...more].map((name) => [name, `${ISSUER}/stores/${alpha}/${name}`]),
  );
  const snapshots = body._links['svc:subscription_mrr_snapshots'];
  assert.match(snapshots?.title ?? '', / MRR /);
});

test('all collections of a store link back to it', async () => {
  const { _links: links } = (await call('GET', `/stores/${alpha}`, { token: store })).body;
  const lists = Object.entries(links).filter(([rel]) => rel.startsWith('svc:'));
  assert.equal(lists.length, 13);
  for (const [rel, { href }] of lists) {
    const { body } = await call('GET', href, { token: store });
    assert.equal(body._links['svc:store']?.href, links['self']?.href, rel);
  }
});

test('a store created twice under one idempotency key is created once', async () => {
  const headers = { 'Idempotency-Key': 'one store' };
  const [first, second] = [
    await call('POST', '/stores', { token: platform, body: shop, headers }),
    await call('POST', '/stores', { token: platform, body: shop, headers }),
  ];
  assert.deepEqual([first.status, second.status, second.body['id']], [201, 201, first.body['id']]);
});

for (const [what, body, faults] of [
  ['without anything', {}, ['domain required', 'email required', 'name required', 'time_zone required']],
  [
    'with every error',
    { name: '', domain: 'https://x', email: 'x', time_zone: 'Mars/Olympus', colour: 'red' },
    [
      'colour unknown_property',
      'domain invalid_value',
      'email invalid_value',
      'name too_short',
      'time_zone invalid_value',
    ],
  ],
] as const) {
  test(`a store ${what} is rejected with all its errors at once`, async () => {
    const refused = await call('POST', '/stores', { token: platform, body });
    assert.deepEqual([refused.status, faultsOf(refused)], [400, faults]);
  });
}

test('only the platform creates and erases stores', async () => {
  for (const token of [store, account]) {
    for (const [method, path, body] of [
      ['POST', '/stores', shop],
      ['DELETE', `/stores/${alpha}`, undefined],
    ] as const) {
      const refused = await call(method, path, { token, body });
      assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope']);
    }
  }
  assert.equal((await call('GET', `/stores/${alpha}`, { token: store })).status, 200);
});

test('an app changes its store, other properties stay, and the dates follow the zone', async () => {
  people.wait(60_000);
  const before = (await call('GET', `/stores/${alpha}`, { token: store })).body;
  const { status, body } = await call('PATCH', `/stores/${alpha}`, {
    token: store,
    body: { name: 'Renamed', time_zone: 'Asia/Tokyo' },
  });
  assert.equal(status, 200);
  const changed = { name: 'Renamed', time_zone: 'Asia/Tokyo', date_modified: '2026-07-01T19:01:00+0900' };
  assert.deepEqual(body, { ...before, ...changed, date_created: '2026-07-01T19:00:00+0900' });
  assert.deepEqual((await call('GET', `/stores/${alpha}`, { token: account })).body, body);
});

test("a change of its time zone moves the end of the store's day of revenue", async () => {
  const path = `/stores/${beta}`;
  const resource = { id: 1, is_active: true };
  const body = { event: 'subscription/created', resource };
  assert.equal((await call('POST', `${path}/events`, { token: platform, body })).status, 201);
  const endsAt = async (time_zone: string): Promise<string> => {
    assert.equal((await call('PATCH', path, { token: account, body: { time_zone } })).status, 200);
    const [row] = await sql<{ at: string }[]>`
      select to_char(due_at at time zone ${time_zone}, 'HH24:MI') as at from revenue_book where store_id = ${beta}`;
    return row?.at ?? 'no schedule';
  };
  assert.deepEqual([await endsAt('Pacific/Kiritimati'), await endsAt('Pacific/Honolulu')], ['00:10', '00:10']);
});

test('a representation that was read can be sent back', async () => {
  const { body } = await call('GET', `/stores/${beta}`, { token: account });
  const answer = await call('PATCH', `/stores/${beta}`, { token: account, body });
  assert.equal(answer.status, 200);
  assert.equal(answer.body['name'], body['name']);
});

test('only the platform decides which side publishes the lifecycle events of subscriptions', async () => {
  const path = `/stores/${beta}`;
  const read = await call('GET', path, { token: account });
  const refused = await call('PATCH', path, { token: account, body: { subscription_events: 'published', name: 'No' } });
  assert.deepEqual([refused.status, refused.body['error']], [403, 'insufficient_scope']);
  assert.deepEqual(faultsOf(refused), ['subscription_events insufficient_scope']);
  assert.deepEqual((await call('GET', path, { token: account })).body, read.body);
  const change = { subscription_events: 'published' };
  assert.equal((await call('PATCH', path, { token: platform, body: change })).body['subscription_events'], 'published');
  const kept = await call('PATCH', path, { token: account, body: { ...change, name: 'Yes' } });
  assert.deepEqual([kept.status, kept.body['name'], kept.body['subscription_events']], [200, 'Yes', 'published']);
  const neither = await call('PATCH', path, { token: platform, body: { subscription_events: 'both' } });
  assert.deepEqual([neither.status, faultsOf(neither)], [400, ['subscription_events invalid_value']]);
});

test('a store can be created whose subscription lifecycle events are published', async () => {
  const body = { ...shop, subscription_events: 'published' };
  const answer = await call('POST', '/stores', { token: platform, body });
  assert.deepEqual([answer.status, answer.body['subscription_events']], [201, 'published']);
});

test('a change with errors changes nothing, and names them all', async () => {
  const before = (await call('GET', `/stores/${alpha}`, { token: store })).body;
  const body = { name: 7, domain: '-x', email: 'x', time_zone: '' };
  const refused = await call('PATCH', `/stores/${alpha}`, { token: store, body });
  assert.equal(refused.status, 400);
  assert.deepEqual(faultsOf(refused), [
    'domain invalid_value',
    'email invalid_value',
    'name invalid_value',
    'time_zone too_short',
  ]);
  assert.deepEqual((await call('GET', `/stores/${alpha}`, { token: store })).body, before);
});

test('a change of a store that was changed meanwhile is rejected', async () => {
  const read = await call('GET', `/stores/${alpha}`, { token: store });
  const headers = { 'If-Match': String(read.headers.get('etag')) };
  const change = (name: string) =>
    call('PATCH', `/stores/${alpha}`, { token: store, body: { name }, headers }).then(({ status }) => status);
  assert.deepEqual([await change('First'), await change('Second')], [200, 412]);
  assert.equal((await call('DELETE', `/stores/${alpha}`, { token: platform, headers })).status, 412);
  assert.equal((await call('GET', `/stores/${alpha}`, { token: store })).body['name'], 'First');
});

test('of concurrent changes none is lost', async () => {
  const changes = [{ name: 'Both' }, { email: 'both@example.com' }, { domain: 'both.example.com' }];
  await Promise.all(changes.map((body) => call('PATCH', `/stores/${beta}`, { token: account, body })));
  const { body } = await call('GET', `/stores/${beta}`, { token: account });
  assert.deepEqual([body['name'], body['email'], body['domain']], ['Both', 'both@example.com', 'both.example.com']);
});

test('a store that the caller cannot access is not found, with any method', async () => {
  for (const [token, id] of [
    [store, beta],
    [store, foreign],
    [account, foreign],
    [platform, foreign + 256],
  ] as const) {
    assert.equal((await call('GET', `/stores/${id}`, { token })).status, 404);
    assert.equal((await call('PATCH', `/stores/${id}`, { token, body: { name: 'Taken' } })).status, 404);
    assert.equal((await call('PATCH', `/stores/${id}`, { token, body: { name: 7 } })).status, 404);
  }
  const [row] = await sql`select name from store where id = ${foreign}`;
  assert.equal(row?.['name'], 'Foreign');
});

test("every store is in the platform's list of stores", async () => {
  const { body } = await call('GET', '/stores?limit=300', { token: platform });
  const [row] = await sql`select count(*) from store`;
  assert.equal(body['total_items'], String(row?.['count']));
});
