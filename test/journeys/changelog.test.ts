/** The changelog of a store: an entry for each change of the store, its members and its webhooks, by any actor. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startWithPeople } from '../security/api-callers.ts';
import { itemsOf, type Representation } from '../setup/caller.ts';
import { eventsOf } from '#catalog/catalog.ts';
import { internalProperties } from '#catalog/internal-types.ts';
import { runCommand } from '../setup/command.ts';
import { inOneDatabase } from '../setup/suite-map.ts';
import { urlOf } from '../setup/database.ts';

const people = await startWithPeople();
const { call, sql, alpha, beta, adaId, bobId, store, account, platformToken: platform } = people;
const [platformId, mailerId] = [people.platform.client_id, people.client.client_id];

/** Makes each commit fail that leaves a store, a webhook or an event with this text. */
await sql.unsafe(`
  create function refuse() returns trigger language plpgsql as $$ begin raise 'refused by the test'; end $$;
  create constraint trigger late after update on store deferrable initially deferred
    for each row when (new.name = 'Undone by the commit') execute function refuse();
  create trigger early before insert on event
    for each row when (new.body like '%Undone by its entry%') execute function refuse()`);

const byPlatform = { actor: 'platform', user: null, client: platformId };
const byApp = { actor: 'app', user: adaId, client: mailerId };
const byAda = { actor: 'user', user: adaId, client: null };
const byOperator = { actor: 'operator', user: null, client: null };

async function listed(storeId: number): Promise<Representation[]> {
  const reply = await call('GET', `/stores/${storeId}/changelogs?limit=300&order=id`, { token: platform });
  assert.equal(reply.status, 200);
  return itemsOf(reply, 'changelogs');
}
/** Returns the entries that the changelog gained meanwhile, without ids, dates and links. */
async function entriesOf(act: () => Promise<unknown>, storeId = alpha) {
  const before = new Set((await listed(storeId)).map(({ id }) => id));
  await act();
  const added = (await listed(storeId)).filter(({ id }) => !before.has(id));
  return added.map(({ _links, _embedded, id, date_created, ...entry }) => entry);
}

const change = (path: string, body: object, token = store, headers = {}) =>
  call('PATCH', path, { token, body, headers });
const ALPHA = `/stores/${alpha}`;
const HOOK = {
  name: 'Orders',
  format: 'json',
  encryption_key: 'a key of mine',
  url: 'http://93.184.216.34/hook',
  events: ['transaction/created'],
};
async function newHook(body: object = HOOK): Promise<string> {
  const reply = await call('POST', `${ALPHA}/webhooks`, { token: store, body });
  assert.equal(reply.status, 201, JSON.stringify(reply.body));
  return `/webhooks/${String(reply.body['id'])}`;
}
const idOf = (path: string): number => Number(path.split('/').at(-1));

/** Submits a form of a page in Ada's browser with these fields changed. */
async function sendForm(path: string, method: string, changes: Record<string, string> = {}) {
  const headers = { Accept: 'text/html', Cookie: people.browser.cookie() ?? '', 'Sec-Fetch-Site': 'same-origin' };
  const page = await (await fetch(people.origin + path, { headers })).text();
  const inside = [...page.matchAll(/<form method="post"[^>]*>(.*?)<\/form>/gs)].map(([, form = '']) => form);
  const form = inside.find((text) => text.includes(`name="_method" value="${method}"`)) ?? '';
  const inputs = [...form.matchAll(/<input[^>]*?\sname="([^"]*)"\s+value="([^"]*)"/gs)];
  const body = new URLSearchParams(inputs.map(([, name = '', value = '']) => [name, value]));
  for (const [name, value] of Object.entries(changes)) body.set(name, value);
  const response = await fetch(people.origin + path, { method: 'POST', redirect: 'manual', headers, body });
  assert.equal(response.status, 303, await response.text());
}

test('the changelog of a store begins with the values that it was created with', async () => {
  const details = { name: 'Gamma', domain: 'Gamma.example.com', email: 'g@example.com', time_zone: 'Asia/Tokyo' };
  const { body } = await call('POST', '/stores', { token: platform, body: details });
  // The changelog leaves out what never changes, and the key of the platform.
  const { _links: _, id: storeId, date_created: __, date_modified: ___, is_sandbox: ____, ...rest } = body;
  const { external_id: _____, ...after } = rest;
  assert.equal(after['domain'], 'gamma.example.com');
  const [entry, ...more] = await listed(Number(storeId));
  assert.deepEqual(more, []);
  const { _links, _embedded, id, date_created, ...said } = entry ?? { _links: {} };
  const about = { resource: 'store', resource_id: storeId, action: 'created' };
  assert.deepEqual(said, { ...about, ...byPlatform, before: null, after });
  assert.match(String(date_created), /\+0900$/);
});

const changers: [string, () => Promise<unknown>, object][] = [
  ['an app of the store', () => change(ALPHA, { name: 'By the app' }), byApp],
  ['an app of the account', () => change(ALPHA, { name: 'By the app of the account' }, account), byApp],
  ['the platform', () => change(ALPHA, { name: 'By the platform' }, platform), byPlatform],
  ['a person at the page', () => sendForm(ALPHA, 'PATCH', { name: 'By herself' }), byAda],
];
for (const [who, act, by] of changers) {
  test(`a change of the store by ${who} has its actor and the values before`, async () => {
    const before = (await call('GET', ALPHA, { token: store })).body['name'];
    const entries = await entriesOf(act);
    const after = (await call('GET', ALPHA, { token: store })).body['name'];
    const about = { resource: 'store', resource_id: alpha, action: 'changed' };
    assert.deepEqual(entries, [{ ...about, ...by, before: { name: before }, after: { name: after } }]);
  });
}

test('a member who is added, made an owner and removed has three entries', async () => {
  const bob = `${ALPHA}/members/${bobId}`;
  const entries = await entriesOf(async () => {
    await call('POST', `${ALPHA}/members`, { token: platform, body: { user: bobId, role: 'member' } });
    await change(bob, { role: 'owner' }, platform);
    await call('DELETE', bob, { token: platform });
  });
  const about = { resource: 'member', resource_id: bobId, ...byPlatform };
  assert.deepEqual(entries, [
    { ...about, action: 'created', before: null, after: { user_id: bobId, role: 'member' } },
    { ...about, action: 'changed', before: { role: 'member' }, after: { role: 'owner' } },
    { ...about, action: 'deleted', before: { user_id: bobId, role: 'owner' }, after: null },
  ]);
});

const settings = {
  name: 'Orders',
  format: 'json',
  version: '2',
  url: 'http://93.184.216.34/(set)',
  query: null,
  filter: null,
  encryption_key: 'set',
  next_encryption_key: null,
  rotation_ends: null,
  event_resource: 'transaction',
  events: ['transaction/created'],
  is_active: '1',
  inactive_reason: null,
  is_held: '0',
  headers: {},
  rate_per_second: null,
  retry_profile: 'hour',
  ordering: null,
};

test('a webhook that is created, changed, disabled and deleted has one entry for each', async () => {
  let path = '';
  const entries = await entriesOf(async () => {
    path = await newHook();
    await change(path, { event_resource: 'customer', rate_per_second: 5 });
    await change(path, { is_active: '0' }, account);
    await sendForm(path, 'DELETE');
  });
  const about = { resource: 'webhook', resource_id: idOf(path) };
  const events = eventsOf('customer').toSorted();
  const later = { event_resource: 'customer', events, rate_per_second: 5 };
  const earlier = { event_resource: 'transaction', events: ['transaction/created'], rate_per_second: null };
  assert.deepEqual(entries, [
    { ...about, ...byApp, action: 'created', before: null, after: settings },
    { ...about, ...byApp, action: 'changed', before: earlier, after: later },
    { ...about, ...byApp, action: 'changed', before: { is_active: '1' }, after: { is_active: '0' } },
    { ...about, ...byAda, action: 'deleted', before: { ...settings, ...later, is_active: '0' }, after: null },
  ]);
});

test('the entry of a replaced webhook has the differences, including restored defaults', async () => {
  const path = await newHook({ ...HOOK, query: 'zoom=items', retry_profile: 'long' });
  const body = { name: 'Orders', format: 'json', encryption_key: HOOK.encryption_key, url: HOOK.url };
  const [entry, ...more] = await entriesOf(() => call('PUT', path, { token: store, body }));
  assert.deepEqual(more, []);
  const before = {
    query: 'zoom=items',
    event_resource: 'transaction',
    events: HOOK.events,
    retry_profile: 'long',
  };
  assert.deepEqual(entry?.['before'], before);
  assert.deepEqual(entry['after'], { query: null, event_resource: null, events: [], retry_profile: 'hour' });
});

test('a change without a difference has no entry', async () => {
  const events = ['transaction/created', 'transaction/captured'];
  const url = `${HOOK.url}?token=t`;
  const path = await newHook({ ...HOOK, headers: { 'X-One': '1', 'X-Two': '2' }, url, events });
  const seen = await call('GET', path, { token: store });
  const { name, time_zone } = (await call('GET', ALPHA, { token: store })).body;
  const entries = await entriesOf(async () => {
    assert.equal((await call('PUT', path, { token: store, body: seen.body })).status, 200);
    assert.equal((await change(path, { headers: { 'X-Two': '2', 'X-One': '1' }, is_active: true })).status, 200);
    assert.equal((await change(path, { events: events.toReversed() })).status, 200);
    assert.equal((await change(ALPHA, { name, time_zone })).status, 200);
    assert.equal((await change(`${ALPHA}/members/${adaId}`, { role: 'owner' }, platform)).status, 200);
  });
  assert.deepEqual(entries, []);
});

test('a rejected change has no entry', async () => {
  const path = await newHook();
  const stale = { 'If-Match': '"of another time"' };
  const entries = await entriesOf(async () => {
    assert.equal((await change(path, { name: 'Late' }, store, stale)).status, 412);
    assert.equal((await change(ALPHA, { name: 'Late' }, store, stale)).status, 412);
    assert.equal((await call('DELETE', path, { token: store, headers: stale })).status, 412);
    assert.equal((await change(path, { name: 'Wrong', query: 'zoom=nothing' })).status, 400);
    const again = { user: adaId, role: 'member' };
    assert.equal((await call('POST', `${ALPHA}/members`, { token: platform, body: again })).status, 409);
  });
  assert.deepEqual(entries, []);
});

test('the changelog is listed newest first; its order and filters by date are those of its ids', async () => {
  const path = await newHook();
  for (const name of ['one', 'two', 'three']) await change(path, { name });
  const idsOf = async (query: string) => {
    const reply = await call('GET', `${ALPHA}/changelogs?limit=300${query}`, { token: store });
    return itemsOf(reply, 'changelogs').map(({ id }) => Number(id));
  };
  const newestFirst = await idsOf('');
  assert.ok(newestFirst.length >= 4);
  assert.deepEqual(
    newestFirst,
    newestFirst.toSorted((a, b) => b - a),
  );
  assert.deepEqual(await idsOf('&order=date_created%20desc'), newestFirst);
  assert.deepEqual(await idsOf('&order=date_created'), newestFirst.toReversed());
  assert.deepEqual(await idsOf('&offset=2&resource=webhook'), (await idsOf('&resource=webhook')).slice(2));
  const [newest] = itemsOf(await call('GET', `${ALPHA}/changelogs?limit=1`, { token: store }), 'changelogs');
  const [dayMs, newestMs] = [86_400_000, new Date(String(newest?.['date_created'])).getTime()];
  const at = (ms: number) => encodeURIComponent(new Date(newestMs + ms).toISOString());
  assert.deepEqual(
    await idsOf(`&date_created:greaterthan=${at(-dayMs)}&date_created:lessthan=${at(dayMs)}`),
    newestFirst,
  );
  assert.deepEqual(await idsOf(`&date_created:greaterthan=${at(dayMs)}`), []);
  assert.deepEqual(await idsOf(`&date_created:lessthan=${at(-dayMs)}`), []);
});

test('a creation repeated under one idempotency key has one entry', async () => {
  const headers = { 'Idempotency-Key': 'once' };
  const ask = () => call('POST', `${ALPHA}/webhooks`, { token: store, body: HOOK, headers });
  const entries = await entriesOf(async () => assert.equal((await ask()).body['id'], (await ask()).body['id']));
  assert.equal(entries.length, 1);
});

const LATER = 'The entry of a change of accounts is written later by another database: it cannot undo the change';

test('a change that does not commit leaves no entry', inOneDatabase(LATER), async () => {
  const entries = await entriesOf(async () =>
    assert.equal((await change(ALPHA, { name: 'Undone by the commit' })).status, 500),
  );
  assert.deepEqual(entries, []);
});

test('a change whose entry cannot be written is rolled back', inOneDatabase(LATER), async () => {
  const name = 'Undone by its entry';
  const path = await newHook();
  assert.equal((await change(ALPHA, { name })).status, 500);
  assert.equal((await change(path, { name })).status, 500);
  assert.notEqual((await call('GET', ALPHA, { token: store })).body['name'], name);
  assert.equal((await call('GET', path, { token: store })).body['name'], HOOK.name);
});

async function program(...args: string[]) {
  const env = { DATABASE_URL: urlOf(people.address), HALCYON_SECRET_KEY: '07'.repeat(32), LOG_LEVEL: 'silent' };
  const { code, out, err } = await runCommand(['store', ...args], env);
  assert.equal(code, 0, err);
  return JSON.parse(out) as Record<string, unknown>;
}

test('a change by a command of the operator has an entry with the operator as actor', async () => {
  const [id, bob, ada] = [String(beta), String(bobId), String(adaId)];
  let delta = 0;
  const entries = await entriesOf(async () => {
    const made = program('create', '--name', 'Delta', '--domain', 'delta.test', '--email', 'd@example.com');
    await program('add-member', id, bob);
    await program('add-member', id, ada, '--role', 'owner');
    await program('remove-member', id, bob);
    delta = Number((await made)['id']);
  }, beta);
  const about = { resource: 'member', ...byOperator };
  const was = { user_id: bobId, role: 'owner' };
  assert.deepEqual(entries, [
    { ...about, resource_id: bobId, action: 'created', before: null, after: was },
    { ...about, resource_id: adaId, action: 'changed', before: { role: 'member' }, after: { role: 'owner' } },
    { ...about, resource_id: bobId, action: 'deleted', before: was, after: null },
  ]);
  const [first] = await listed(delta);
  assert.deepEqual([first?.['actor'], first?.['action'], first?.['resource_id']], ['operator', 'created', delta]);
});

test('an app reads the changelog of its own store only', async () => {
  const own = await call('GET', `${ALPHA}/changelogs`, { token: store });
  assert.equal(own.status, 200);
  const [entry] = itemsOf(own, 'changelogs');
  assert.equal((await call('GET', `${ALPHA}/changelogs/${String(entry?.['id'])}`, { token: store })).status, 200);
  assert.equal((await call('GET', `/stores/${beta}/changelogs`, { token: store })).status, 404);
});

test('a search for a documented property of an entry works, and any other parameter is an error', async () => {
  const [{ _links, ...entry } = { _links: {} }] = await listed(alpha);
  assert.deepEqual(Object.keys(internalProperties('changelog') ?? {}).toSorted(), Object.keys(entry).toSorted());
  for (const [query, message] of [
    ['nothing=1', /no parameter "nothing".*possible/],
    ['order=before', /before cannot be used to sort or filter/],
    ['fields=nothing', /no property "nothing"/],
    ['resource_id=seven', /must be a number/],
  ] as const) {
    const refused = await call('GET', `${ALPHA}/changelogs?${query}`, { token: store });
    assert.equal(refused.status, 400, query);
    assert.match(String(itemsOf(refused, 'errors')[0]?.['message']), message);
  }
  const relation = await call('GET', '/rels/changelogs', { token: store });
  assert.match(JSON.stringify(relation.body), /"filters":\[[^\]]*"resource_id"[^\]]*\]/);
});
