import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addMember, createStore } from '#stores/store.ts';
import { Problem } from '#core/problem.ts';
import { startTestApp } from '../setup/app.ts';
import { freePort } from '../setup/free-port.ts';
import { AUTH_URL, BASE_URL, faultsIn, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a, b } = await startWebhookApi();

test('home without a token says how to get one', async () => {
  const { status, body } = await call('GET', '/', { token: null });
  assert.equal(status, 200);
  const links = ['curies', 'self', 'svc:token', 'svc:authorize', 'svc:register', 'svc:docs'];
  assert.deepEqual(Object.keys(body._links), links);
  assert.equal(body._links['self']?.href, `${BASE_URL}/`);
  const token = body._links['svc:token'];
  assert.deepEqual([token?.href, token?.type], [`${BASE_URL}/token`, 'application/json']);
  assert.ok(token?.title);
  assert.equal(body._links['svc:authorize']?.href, `${AUTH_URL}/authorize`);
});

test('home with a token links to the resources that the token can access', async () => {
  assert.equal((await call('GET', '/')).body._links['svc:store']?.href, `${BASE_URL}/stores/${a}`);
  for (const token of ['user', 'platform'] as const) {
    const { body } = await call('GET', '/', { token });
    assert.equal(body._links['svc:stores']?.href, `${BASE_URL}/stores`);
    assert.equal(body._links['svc:store'], undefined);
  }
});

test('home links to the person of a token, and for the platform to all that it can create', async () => {
  for (const [token, user] of [
    ['a', 1],
    ['user', 3],
  ] as const) {
    const { _links: links } = (await call('GET', '/', { token })).body;
    assert.equal(links['svc:user']?.href, `${BASE_URL}/users/${user}`);
    assert.deepEqual([links['svc:users'], links['svc:clients']], [undefined, undefined]);
  }
  const { _links: links } = (await call('GET', '/', { token: 'platform' })).body;
  assert.equal(links['svc:user'], undefined);
  const hrefs = ['svc:stores', 'svc:users', 'svc:clients'].map((rel) => links[rel]?.href);
  assert.deepEqual(hrefs, [`${BASE_URL}/stores`, `${BASE_URL}/users`, `${BASE_URL}/clients`]);
});

test('home links to the documentation, with a token or without', async () => {
  for (const token of [null, 'a'] as const) {
    const docs = (await call('GET', '/', { token })).body._links['svc:docs'];
    assert.deepEqual([docs?.href, docs?.type], [`${BASE_URL}/docs`, 'text/html']);
  }
});

test('an unknown token and an unknown parameter are rejected', async () => {
  const unknown = await call('GET', '/', { headers: { Authorization: 'Bearer unknown' } });
  assert.deepEqual([unknown.status, unknown.body['error']], [401, 'invalid_token']);
  assert.deepEqual(faultsIn(await call('GET', '/?zoom=store')), ['zoom unknown_parameter']);
});

test('a store shows its properties, its dates in its own zone', async () => {
  const { status, body } = await call('GET', `/stores/${a}`);
  assert.equal(status, 200);
  const { _links, ...properties } = body;
  assert.deepEqual(properties, {
    id: a,
    name: 'Alpha',
    domain: 'alpha.example.com',
    email: 'owner@alpha.example.com',
    time_zone: 'Europe/Berlin',
    subscription_events: 'derived',
    second_factor: 'optional',
    is_sandbox: false,
    external_id: null,
    date_created: '2026-01-02T04:04:05+0100',
    date_modified: '2026-01-02T04:04:05+0100',
  });
  assert.equal(_links['self']?.href, `${BASE_URL}/stores/${a}`);
  assert.equal(_links['svc:webhooks']?.href, `${BASE_URL}/stores/${a}/webhooks`);
});

test('another store, an unknown one and a malformed id are the same 404', async () => {
  for (const id of [String(b), '999999999', '0', '-1', '1e3', '9007199254740993', 'x']) {
    const reply = await call('GET', `/stores/${id}`);
    assert.deepEqual([id, reply.status, ...faultsIn(reply)], [id, 404, '- not_found']);
  }
  assert.equal((await call('GET', `/stores/${a + 256}`, { token: 'platform' })).status, 404);
});

async function ids(token: 'a' | 'user' | 'platform', query = '') {
  const { body } = await call('GET', `/stores${query}`, { token });
  return [body['total_items'], ...(body._embedded['svc:stores'] ?? []).map((store) => store['id'])];
}

test('a token lists the stores that it can access, a page at a time', async () => {
  const both = [a, b].toSorted((x, y) => x - y);
  assert.deepEqual(await ids('a'), ['1', a]);
  assert.deepEqual(await ids('user'), ['2', ...both]);
  assert.deepEqual(await ids('platform'), ['2', ...both]);
  assert.deepEqual(await ids('user', '?limit=1&offset=1'), ['2', both[1]]);
});

test('stores are created on many shards, and an invalid one is rejected with every error', async () => {
  const now = new Date('2026-01-01T00:00:00Z');
  const details = { name: 'S', domain: 'S.Example.com', email: 's@example.com', timeZone: 'UTC', now };
  const shards = new Set<number>();
  for (let i = 0; i < 40; i += 1) shards.add((await createStore(sql, details)).id % 256);
  assert.ok(shards.size > 20, `${shards.size} shards for 40 stores`);
  await assert.rejects(createStore(sql, { ...details, domain: '', timeZone: 'x' }), (error) => {
    assert.ok(error instanceof Problem);
    assert.deepEqual([error.status, ...error.faults.map(({ field }) => field)], [400, 'domain', 'time_zone']);
    return true;
  });
});

test('a member is added once, with the latest role; an unknown store or user is a 404', async () => {
  const now = new Date('2026-01-01T00:00:00Z');
  await sql`insert into users (id, email, password_hash, date_created) values (7, 'm@example.com', 'x', ${now})`;
  await addMember(sql, { storeId: a, userId: 7, role: 'owner', now });
  await addMember(sql, { storeId: a, userId: 7, role: 'member', now });
  const rows = await sql`select store_id, role from membership where user_id = 7`;
  assert.deepEqual([...rows], [{ store_id: a, role: 'member' }]);
  for (const missing of [
    { storeId: a, userId: 8 },
    { storeId: a + 256, userId: 7 },
  ]) {
    await assert.rejects(addMember(sql, { ...missing, role: 'owner', now }), { status: 404 });
  }
});

test('with a path in BASE_URL the home answers with and without a slash at its end, with the same links', async () => {
  const port = await freePort();
  for (const end of ['', '/']) {
    const app = await startTestApp({
      roles: ['serve'],
      env: { PORT: String(port), BASE_URL: `http://LOCALHOST:${port}/shop/api${end}` },
    });
    const home = `http://localhost:${port}/shop/api`;
    assert.equal(app.baseUrl, home);
    const bodies = await Promise.all(
      ['', '/', '?', '/?', '?zoom', '/?zoom'].map(async (rest) => {
        const response = await app.api('GET', home + rest);
        return [response.status, await response.text()] as const;
      }),
    );
    const [[status, body], slash, ...others] = bodies as [[number, string], ...(readonly [number, string])[]];
    assert.equal(status, 200);
    assert.deepEqual(slash, [status, body]);
    assert.deepEqual(others.slice(0, 2), [bodies[0], bodies[0]]);
    assert.equal(others[2]?.[0], others[3]?.[0]);
    const { _links } = JSON.parse(body) as { _links: Record<string, { href: string }> };
    assert.equal(_links['self']?.href, home);
    for (const { href } of Object.values(_links))
      if (href !== undefined) assert.ok(`${href}/`.startsWith(`${home}/`), href);
    for (const other of ['/shop/apis', '/shop/api//', '/shop/', '/shop', '/'])
      assert.equal((await app.api('GET', `http://localhost:${port}${other}`)).status, 404, other);
    await app.stop();
  }
});
