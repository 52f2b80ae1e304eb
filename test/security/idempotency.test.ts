import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { deleteMember } from '#stores/stores-sql.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { PATIENCE_MS, until } from '../setup/until.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { storesOf } from '../setup/suite-map.ts';

type Ask = { key?: string; body?: unknown; token?: string; path?: string; origin?: string; accept?: string };

const WEBHOOK = { name: 'Orders', format: 'json', encryption_key: 'a secret that must not lie around' };

const server = await startAuthorizationServer();
const second = await server.startSecond();
const issue = async (changes: Record<string, string> = {}, client: Record<string, string> = {}) =>
  String((await server.redeem(await server.newCode(changes), client)).body['access_token']);
const token = await issue();
const redirect_uri = 'https://other.example.com/cb';
const other = await issue({ client_id: server.other.client_id, redirect_uri }, { ...server.other, redirect_uri });

async function post({ key, body = WEBHOOK, token: bearer = token, path, origin = server.origin, accept }: Ask) {
  const response = await fetch(origin + (path ?? `/stores/${server.alpha}/webhooks`), {
    method: 'POST',
    headers: {
      'SERVICE-API-VERSION': '1',
      Authorization: `Bearer ${bearer}`,
      'Content-Type': 'application/json',
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
      ...(accept === undefined ? {} : { Accept: accept }),
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

async function webhooks(): Promise<number> {
  const [row] = await server.sql<{ n: number }[]>`select count(*) as n from webhook`;
  return row?.n ?? NaN;
}

test('a repeated request under one key creates one resource and gets the same bytes', async () => {
  const present = await webhooks();
  const first = await post({ key: 'one' });
  const again = await post({ key: 'one' });
  assert.deepEqual([first.status, again.status], [201, 201]);
  assert.equal(again.text, first.text);
  for (const name of ['location', 'etag', 'content-type'])
    assert.equal(again.headers.get(name), first.headers.get(name));
  assert.equal(await webhooks(), present + 1);
});

test('without a key, each request creates a resource', async () => {
  const present = await webhooks();
  await post({});
  await post({});
  assert.equal(await webhooks(), present + 2);
});

test('fifty concurrent requests over two processes create one resource, and each gets it', async () => {
  const present = await webhooks();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => post({ key: 'at once', origin: i % 2 === 0 ? server.origin : second })),
  );
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [201]);
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1);
  assert.equal(await webhooks(), present + 1);
});

test('another body under the same key is a 422 and changes nothing', async () => {
  await post({ key: 'two' });
  const present = await webhooks();
  const { status, text } = await post({ key: 'two', body: { ...WEBHOOK, name: 'Other' } });
  assert.equal(status, 422);
  assert.match(text, /"code":"idempotency_key_reused"/);
  assert.equal(await webhooks(), present);
});

test('a rejected request leaves the key free', async () => {
  const refused = await post({ key: 'three', body: { name: 'No format' } });
  assert.equal(refused.status, 400);
  assert.equal((await post({ key: 'three' })).status, 201);
});

test('each client has its own keys', async () => {
  const mine = await post({ key: 'four' });
  const theirs = await post({ key: 'four', token: other });
  assert.equal(theirs.status, 201);
  assert.notEqual(theirs.headers.get('location'), mine.headers.get('location'));
});

test('a stored answer is not repeated to a client that has lost access to the store', async () => {
  const asked = {
    key: 'five',
    token: await issue({ scope: 'user_full_access' }),
    path: `/stores/${server.beta}/webhooks`,
  };
  assert.equal((await post(asked)).status, 201);
  await deleteMember(server.sql, { shard: shardOf(server.beta), storeId: server.beta, userId: server.adaId });
  assert.equal((await post(asked)).status, 404);
});

test('a stored answer is not repeated for an erased store', async () => {
  const platform = await server.token({ grant_type: 'client_credentials', scope: 'platform', ...server.platform });
  const asPlatform = { key: 'erased', token: String(platform.body['access_token']) };
  const shop = { name: 'Short-lived', domain: 'short.example.com', email: 'a@example.com', time_zone: 'UTC' };
  const store = new URL((await post({ ...asPlatform, path: '/stores', body: shop })).headers.get('location') ?? '')
    .pathname;
  const asked = { ...asPlatform, path: `${store}/webhooks` };
  assert.equal((await post(asked)).status, 201);
  const headers = { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${asPlatform.token}` };
  assert.equal((await fetch(server.origin + store, { method: 'DELETE', headers })).status, 204);
  assert.equal((await post(asked)).status, 404);
});

test('waiting repeats leave connections to other requests', async () => {
  const [holder, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const held = storesOf(server.sql).begin(async (tx) => {
    await tx`select from store where id = ${server.alpha} for update`;
    holder.resolve();
    await release.promise;
  });
  await holder.promise;
  const repeats = Array.from({ length: 30 }, () => post({ key: 'waiting' }));
  await until(
    () => waitingForLocks(server.sql),
    (waiting) => waiting > 0,
  );
  // Many, because the repeats arrive one by one.
  const statuses: (number | string)[] = [];
  for (let n = 0; n < 20 && !statuses.includes('no answer'); n += 1) {
    const reading = fetch(`${server.origin}/stores/${server.alpha}`, {
      headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    statuses.push(
      await reading.then(
        ({ status }) => status,
        () => 'no answer',
      ),
    );
  }
  release.resolve();
  await held;
  assert.deepEqual(new Set(statuses), new Set([200]));
  assert.deepEqual(
    (await Promise.all(repeats)).map(({ status }) => status),
    repeats.map(() => 201),
  );
});

test('a stored answer is repeated in the requested format', async () => {
  const first = await post({ key: 'six' });
  const again = await post({ key: 'six', accept: 'application/json' });
  assert.equal(again.headers.get('content-type'), 'application/json');
  assert.equal(again.text, first.text);
});

for (const key of ['', 'ä', 'x'.repeat(256)]) {
  test(`a key of ${key.length} characters such as "${key.slice(0, 3)}" is rejected`, async () => {
    assert.equal((await post({ key })).status, 400);
  });
}

test('a key is ignored by requests that create nothing', async () => {
  const { status } = await fetch(`${server.origin}/stores/${server.alpha}`, {
    headers: { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${token}`, 'Idempotency-Key': 'x'.repeat(256) },
  });
  assert.equal(status, 200);
});

test('after a day the key is free again, whether or not it was purged', async () => {
  const first = await post({ key: 'seven' });
  server.wait(24 * 3_600_000 + 1_000);
  const fresh = await server.redeem(await server.newCode());
  const later = await post({ key: 'seven', token: String(fresh.body['access_token']) });
  assert.equal(later.status, 201);
  assert.notEqual(later.headers.get('location'), first.headers.get('location'));
});

test('the stored answer is sealed', async () => {
  await post({ key: 'sealed' });
  const rows = await server.sql<{ row: string }[]>`
    select encode(scope, 'escape') || encode(body_hash, 'escape') || encode(answer, 'escape') as row from idempotency_key`;
  assert.ok(rows.length > 0);
  for (const { row } of rows) assert.doesNotMatch(row, /secret that|Orders|webhook/);
});
