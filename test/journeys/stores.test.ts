/** Stores over the API: created and erased by the platform, changed by each caller that can access them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISSUER } from '../security/oauth-server.ts';
import { startWithPeople } from '../security/api-callers.ts';
import { faultsOf } from '../setup/caller.ts';

const people = await startWithPeople();
const { call, sql, alpha, beta, foreign, store, account, platformToken: platform } = people;
const otherPlatform = await people.platformTokenOf('Another platform');

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
    external_id: null,
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
  const names = ['overview', 'statuses', 'webhooks', 'events', 'members', 'grants', 'transactions', 'subscriptions'];
  const more = [
    'customers',
    'transaction_logs',
    'changelogs',
    'apps',
    'subscription_events',
    'subscription_mrr_snapshots',
  ];
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
  assert.equal(lists.length, 14);
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

const post = (body: object, token = platform, headers: Record<string, string> = {}) =>
  call('POST', '/stores', { token, body: { ...shop, ...body }, headers });
const countOf = async (name: string) => (await sql`select from store where name = ${name}`).length;

test('a POST with a known external_id changes its store, and records what it has changed', async () => {
  const first = await post({ external_id: 'shop-1', subscription_events: 'published' });
  assert.deepEqual([first.status, first.body['external_id']], [201, 'shop-1']);
  people.wait(60_000);
  const same = await post({ external_id: 'shop-1' });
  assert.deepEqual([same.status, same.headers.get('location'), same.body], [200, null, first.body]);
  const changed = await post({ external_id: 'shop-1', name: 'Newer', domain: 'newer.example.com' });
  assert.equal(changed.status, 200);
  const { name, domain, date_modified: modified } = changed.body;
  assert.deepEqual(changed.body, { ...first.body, name, domain, date_modified: modified });
  assert.deepEqual([name, domain], ['Newer', 'newer.example.com']);
  assert.notEqual(modified, first.body['date_modified']);
  const list = `/stores/${String(first.body['id'])}/changelogs`;
  const entries = (await call('GET', list, { token: platform })).body._embedded?.['svc:changelogs'] ?? [];
  const facts = entries.map(({ action, before, after }) => [action, before, after]);
  assert.deepEqual(facts.toReversed(), [
    ['created', null, { ...(facts.at(-1)?.[2] as object) }],
    ['changed', { name: 'New', domain: 'new.example.com' }, { name, domain }],
  ]);
  assert.doesNotMatch(JSON.stringify(facts), /external_id|shop-1/);
});

test('of concurrent POSTs with one new external_id one creates the store and the others find it', async () => {
  const answers = await Promise.all(
    Array.from({ length: 12 }, () => post({ external_id: 'at once', name: 'At once' })),
  );
  assert.deepEqual(
    answers.map(({ status }) => status).toSorted((a, b) => a - b),
    [...Array<number>(11).fill(200), 201],
  );
  assert.deepEqual([new Set(answers.map(({ body }) => body['id'])).size, await countOf('At once')], [1, 1]);
});

test('an external_id finds its store, for the client of the platform that has given it and for no other caller', async () => {
  const { body } = await post({ external_id: 'mine' });
  const at = `/stores/${String(body['id'])}`;
  const found = async (token: string, query: string) => {
    const list = (await call('GET', `/stores?${query}`, { token })).body;
    return [list['total_items'], list._embedded?.['svc:stores']?.map(({ id }) => id)];
  };
  assert.deepEqual(await found(platform, 'external_id=mine'), ['1', [body['id']]]);
  assert.deepEqual(await found(platform, 'external_id=mine&name=no'), ['0', []]);
  assert.deepEqual(await found(platform, 'external_id:in=mine,unknown'), ['1', [body['id']]]);
  assert.deepEqual(await found(otherPlatform, 'external_id=mine'), ['0', []]);
  assert.equal((await call('GET', at, { token: otherPlatform })).body['external_id'], null);
  const theirs = await post({ external_id: 'mine' }, otherPlatform);
  assert.equal(theirs.status, 201);
  assert.deepEqual(await found(platform, 'external_id=mine'), ['1', [body['id']]]);
  const change = { external_id: 'alpha' };
  assert.equal((await call('PATCH', `/stores/${alpha}`, { token: platform, body: change })).status, 200);
  assert.equal((await call('GET', `/stores/${alpha}`, { token: store })).body['external_id'], null);
  assert.deepEqual(await found(store, 'external_id=alpha'), ['0', []]);
});

test('the platform changes and removes the external_id of a store, unless another store has it', async () => {
  const [one, two] = [await post({ external_id: 'one' }), await post({})];
  const change = (id: unknown, body: object, token = platform) =>
    call('PATCH', `/stores/${String(id)}`, { token, body });
  const taken = await change(two.body['id'], { external_id: 'one', name: 'Not changed' });
  assert.deepEqual([taken.status, faultsOf(taken)], [409, ['external_id external_id_taken']]);
  assert.equal((await call('GET', `/stores/${String(two.body['id'])}`, { token: platform })).body['name'], 'New');
  const read = await call('GET', `/stores/${String(one.body['id'])}`, { token: platform });
  assert.equal((await change(one.body['id'], { external_id: null })).body['external_id'], null);
  const stale = { token: platform, body: {}, headers: { 'If-Match': String(read.headers.get('etag')) } };
  assert.equal((await call('PATCH', `/stores/${String(one.body['id'])}`, stale)).status, 412);
  assert.equal((await change(two.body['id'], { external_id: 'one' })).body['external_id'], 'one');
  assert.equal((await post({ external_id: 'one' })).body['id'], two.body['id']);
  for (const token of [store, account]) {
    const refused = await change(alpha, { external_id: 'theirs' }, token);
    assert.deepEqual([refused.status, faultsOf(refused)], [403, ['external_id insufficient_scope']]);
    assert.equal((await change(alpha, { external_id: null }, token)).status, 200);
  }
  const long = await post({ external_id: 'é'.repeat(65) });
  assert.deepEqual([long.status, faultsOf(long)], [400, ['external_id too_long']]);
  assert.equal((await post({ external_id: '\u{1F6D2}'.repeat(64) })).status, 201);
});

test('the external_id of an erased store is free, also while the store is being erased', async () => {
  const first = await post({ external_id: 'again' });
  const erased = call('DELETE', `/stores/${String(first.body['id'])}`, { token: platform });
  const [{ status }, during] = await Promise.all([erased, post({ external_id: 'again', name: 'Again' })]);
  assert.equal(status, 204);
  const next = await post({ external_id: 'again', name: 'Again' });
  assert.notEqual(next.body['id'], first.body['id']);
  if (during.status === 201) assert.equal(next.body['id'], during.body['id']);
  assert.equal(await countOf('Again'), 1);
  assert.equal((await call('DELETE', `/stores/${String(next.body['id'])}`, { token: platform })).status, 204);
  assert.equal((await sql`select from external_key where key = 'again'`).length, 0);
});

test('a repeated Idempotency-Key returns the first response, also for a known external_id', async () => {
  const headers = { 'Idempotency-Key': 'known store' };
  await post({ external_id: 'keyed' });
  const known = await post({ external_id: 'keyed', name: 'Keyed' }, platform, headers);
  await post({ external_id: 'keyed', name: 'Later' });
  const again = await post({ external_id: 'keyed', name: 'Keyed' }, platform, headers);
  assert.deepEqual([known.status, again.status, again.body], [200, 200, known.body]);
  assert.equal(await countOf('Keyed'), 0);
});
