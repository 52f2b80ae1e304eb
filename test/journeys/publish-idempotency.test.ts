/** Idempotency of publishing: requests under one key publish once. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from '../setup/app.ts';

const app = await startTestApp();
const { storeId, platformToken } = app;
const events = `/stores/${storeId}/events`;

type Json = Record<string, unknown>;

let n = 0;
const created = (resource: Json = {}) => ({ event: 'transaction/created', resource: { id: (n += 1), ...resource } });
const publish = (body: unknown, key?: string) =>
  app.api('POST', events, { token: platformToken, body, ...(key && { headers: { 'Idempotency-Key': key } }) });
async function countOf(): Promise<number> {
  const [row] = await app.sql<{ n: number }[]>`select count(*) as n from event`;
  return row?.n ?? 0;
}

test('a repeated request is answered with the first result, and publishes nothing', async () => {
  const event = created();
  const first = await publish(event, 'order-1');
  const before = await countOf();
  const again = await publish(event, 'order-1');
  assert.deepEqual([first.status, again.status], [201, 201]);
  assert.equal(again.headers.get('location'), first.headers.get('location'));
  assert.deepEqual(await again.json(), await first.json());
  assert.equal(await countOf(), before);
});

test('the member of an event is the same key as the header', async () => {
  const event = created();
  const first = await publish(event, 'order-2');
  const again = await publish({ ...event, idempotency_key: 'order-2' });
  assert.deepEqual(await again.json(), await first.json());
});

test('two keys in the header are rejected: joined they would be a key that no later request names', async () => {
  const before = await countOf();
  const headers = { 'SERVICE-API-VERSION': '1', 'Idempotency-Key': ['order-4', 'order-5'] };
  const asked = request(app.baseUrl + events, {
    method: 'POST',
    headers: { ...headers, Authorization: `Bearer ${platformToken}`, 'Content-Type': 'application/json' },
  });
  asked.end(JSON.stringify(created()));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  const text = Buffer.concat(await Array.fromAsync(answer as AsyncIterable<Buffer>)).toString();
  assert.equal(answer.statusCode, 400);
  assert.match(text, /"field":"Idempotency-Key"/);
  assert.equal(await countOf(), before);
});

test('another event under a used key is a 422, and an array that has one is rejected whole', async () => {
  await publish(created(), 'order-3');
  const before = await countOf();
  assert.equal((await publish(created(), 'order-3')).status, 422);
  const array = await publish([created(), { ...created(), idempotency_key: 'order-3' }]);
  assert.equal(array.status, 422);
  assert.match(await array.text(), /1\.idempotency_key/);
  assert.equal(await countOf(), before);
});

test('of an array, events published before are answered and the rest is published', async () => {
  const one = { ...created(), idempotency_key: 'order-4' };
  const first = (await (await publish(one)).json()) as Json;
  const before = await countOf();
  const response = await publish([{ ...created(), idempotency_key: 'order-5' }, one, created()]);
  assert.equal(response.status, 200);
  const { _embedded } = (await response.json()) as { _embedded: { 'svc:events': Json[] } };
  assert.equal(_embedded['svc:events'].length, 3);
  assert.equal(_embedded['svc:events'][1]?.['id'], first['id']);
  assert.equal(await countOf(), before + 2);
});

test('a hundred concurrent requests in one process publish one event', async () => {
  const event = created();
  const before = await countOf();
  const responses = await Promise.all(Array.from({ length: 100 }, () => publish(event, 'order-6')));
  assert.deepEqual([...new Set(responses.map(({ status }) => status))], [201]);
  assert.equal(new Set(responses.map(({ headers }) => headers.get('location'))).size, 1);
  assert.equal(await countOf(), before + 1);
});

test('a first version of a subscription derives a lifecycle event', async () => {
  const response = await publish({
    event: 'subscription/created',
    resource: { id: 's1', is_active: true, frequency: '1m' },
  });
  assert.equal(response.status, 201);
  const list = await app.api('GET', `/stores/${storeId}/subscription_events`);
  const { _embedded } = (await list.json()) as { _embedded: { 'svc:subscription_events': Json[] } };
  assert.equal(_embedded['svc:subscription_events'][0]?.['event'], 'activated');
});

test('a lifecycle event that Halcyon derives itself is a 409, and the other events of its request are not published', async () => {
  const before = await countOf();
  const response = await publish([created(), { event: 'subscription_event/created', resource: { id: 'e1' } }]);
  assert.equal(response.status, 409);
  assert.match(await response.text(), /1\.event/);
  assert.equal(await countOf(), before);
});

test('a lifecycle event does not start revenue statistics, rejected or not: a store without subscriptions has no days to report', async () => {
  const response = await app.api('POST', '/stores', {
    token: platformToken,
    body: { name: 'Quiet', domain: 'quiet.example.com', email: 'a@example.com', time_zone: 'UTC' },
  });
  const { id } = (await response.json()) as { id: number };
  const step = { event: 'subscription_event/created', resource: { id: 'e1' } };
  const refused = await app.api('POST', `/stores/${id}/events`, { token: platformToken, body: step });
  assert.equal(refused.status, 409);
  // Neither does a step of a store whose steps the platform publishes itself.
  const setting = { token: platformToken, body: { subscription_events: 'published' } };
  assert.equal((await app.api('PATCH', `/stores/${id}`, setting)).status, 200);
  const taken = await app.api('POST', `/stores/${id}/events`, { token: platformToken, body: step });
  assert.equal(taken.status, 201);
  const [books] = await app.sql<{ n: number }[]>`select count(*) as n from revenue_book where store_id = ${id}`;
  assert.equal(books?.n, 0);
});

test('an erased store keeps no idempotency key', async () => {
  const details = { name: 'Short', domain: 'short.example.com', email: 'a@example.com', time_zone: 'UTC' };
  const made = await app.api('POST', '/stores', { token: platformToken, body: details });
  const { id } = (await made.json()) as { id: number };
  const post = () =>
    app.api('POST', `/stores/${id}/events`, {
      token: platformToken,
      body: { event: 'transaction/created', resource: { id: 1 } },
      headers: { 'Idempotency-Key': 'order-8' },
    });
  assert.equal((await post()).status, 201);
  assert.equal((await app.api('DELETE', `/stores/${id}`, { token: platformToken })).status, 204);
  assert.equal((await post()).status, 404);
});

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

test('an idempotency key is kept for 24 hours, and then it can be used again', async () => {
  const { clock, sql, baseUrl } = app;
  const platform = await createClient(sql, { name: 'Publisher', redirectUris: [], trusted: true, now: clock.now() });
  // With a new token each time, because none is valid for a day.
  const send = async (id: number) => {
    const form = new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform });
    const granted = await fetch(`${baseUrl}/token`, { method: 'POST', body: form });
    const { access_token: token } = (await granted.json()) as { access_token: string };
    const body = { event: 'transaction/created', resource: { id } };
    const response = await app.api('POST', events, { token, body, headers: { 'Idempotency-Key': 'kept' } });
    return { status: response.status, id: ((await response.json()) as { id?: unknown }).id };
  };
  const first = await send(1);
  clock.advance(DAY_MS - MINUTE_MS);
  assert.deepEqual(await send(1), first);
  assert.equal((await send(2)).status, 422);
  clock.advance(MINUTE_MS);
  const later = await send(2);
  assert.equal(later.status, 201);
  assert.deepEqual(await send(2), later);
  assert.equal((await send(1)).status, 422);
});
