/** A date without an offset is in the time zone of the store, in every list and in recoveries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';

const app = await startTestApp({ roles: ['serve'] });
const { storeId, platformToken: token } = app;
const OFFSET = '-0300';
/** The start of this day in the store is 3:00 in UTC. */
const DAY = '2026-11-20';

type Json = { [name: string]: unknown };
type Parameter = { name: string; in: string; schema: { pattern?: string } };
type Description = { paths: Record<string, { get?: { parameters?: Parameter[] } }> };

async function ask(method: string, path: string, body?: unknown, as = token) {
  const response = await app.api(method, path, { token: as, ...(body !== undefined && { body }) });
  const text = await response.text();
  return { status: response.status, body: JSON.parse(text) as Json, text };
}
async function made(path: string, body: unknown, status = 201): Promise<Json> {
  const answer = await ask('POST', path, body);
  assert.equal(answer.status, status, answer.text);
  return answer.body;
}
await app.sql`update store set time_zone = 'America/Sao_Paulo' where id = ${storeId}`;
const webhook = await made(`/stores/${storeId}/webhooks`, {
  name: 'Orders',
  format: 'json',
  url: 'https://example.com/hook',
  encryption_key: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  event_resource: 'transaction',
});
const publish = (id: string, date_modified: string) =>
  made(`/stores/${storeId}/events`, { event: 'transaction/created', resource: { id, date_modified } });
const event = await publish('before', '2026-11-20T02:59:59Z');
await publish('at', '2026-11-20T03:00:00Z');
await publish('after', '2026-11-20T03:00:01Z');

const values: Record<string, unknown> = {
  store_id: storeId,
  webhook_id: webhook['id'],
  event_id: event['id'],
  collection: 'transactions',
};
const description = (await ask('GET', '/openapi.json')).body as Description;
/** Each list with each of its dates; `path` has parameters in braces. */
const lists = Object.entries(description.paths).flatMap(([path, { get }]) =>
  (get?.parameters ?? [])
    .filter(({ name, in: place }) => place === 'query' && name.startsWith('date_'))
    .map(({ name }) => ({ path, name, isOfStore: /^\/(?:stores\/\{store_id\}|webhooks)\//.test(path) })),
);

test('every list of a store reads a date without an offset in its time zone', async (t) => {
  const ofStores = lists.filter(({ isOfStore }) => isOfStore);
  t.diagnostic(ofStores.map(({ path, name }) => `${path} ${name}`).join('; '));
  assert.ok(ofStores.length >= 15, String(ofStores.length));
  for (const { path, name } of ofStores) {
    const address = path.replaceAll(/\{(\w+)\}/g, (_whole, parameter: string) => String(values[parameter]));
    for (const [written, read] of [
      [DAY, `${DAY}T00:00:00${OFFSET}`],
      [`${DAY}T07:30`, `${DAY}T07:30:00${OFFSET}`],
      [`${DAY}T07:30:00Z`, `${DAY}T07:30:00Z`],
    ]) {
      const { status, text, body } = await ask('GET', `${address}?${name}:lessthan=${written}`);
      assert.equal(status, 200, `${address} ${text}`);
      const { self } = body['_links'] as { self: { href: string } };
      assert.equal(new URL(self.href).searchParams.get(`${name}:lessthan`), read, address);
    }
  }
});

test('lists outside of a store read it in UTC, in which they show dates', async () => {
  const path = '/stores';
  assert.ok(lists.some((list) => list.path === path && !list.isOfStore));
  const { body } = await ask('GET', `${path}?date_created:greaterthan=${DAY}`);
  const { self } = body['_links'] as { self: { href: string } };
  assert.equal(new URL(self.href).searchParams.get('date_created:greaterthan'), `${DAY}T00:00:00+0000`);
});

test('a list has the resources from the midnight of the store on', async () => {
  const found = async (query: string) => {
    const { body } = await ask('GET', `/stores/${storeId}/transactions?${query}`);
    const items = (body['_embedded'] as Record<string, Json[]>)['svc:transactions'] ?? [];
    return items.map(({ id }) => String(id)).toSorted((a, b) => a.localeCompare(b));
  };
  assert.deepEqual(await found(`date_modified:lessthan=${DAY}`), ['before']);
  assert.deepEqual(await found(`date_modified=${DAY}`), ['at']);
  assert.deepEqual(await found(`date_modified:greaterthan=${DAY}`), ['after']);
  assert.deepEqual(await found(`date_modified:not=${DAY}`), ['after', 'before']);
  assert.deepEqual(await found(`date_modified:in=2026-01-01T00:00Z,${DAY}`), ['at']);
  assert.deepEqual(await found(`date_modified:lessthanorequal=${DAY}`), ['at', 'before']);
  assert.deepEqual(await found(`date_modified:greaterthanorequal=${DAY}`), ['after', 'at']);
});

test('a date that is none in the time zone is a 400, and another store a 404', async () => {
  const { status, body } = await ask('GET', `/stores/${storeId}/events?date_created:lessthan=2026-02-30`);
  assert.deepEqual([status, JSON.stringify(body).includes('date_created:lessthan must be a date')], [400, true]);
  const foreign = await ask('GET', `/stores/${storeId + 256}/events?date_created:lessthan=${DAY}`);
  assert.equal(foreign.status, 404);
});

test('since and until of a recovery are in the time zone of the store', async () => {
  const yesterday = new Date(app.clock.now().getTime() - 86_400_000).toISOString().slice(0, 10);
  const body = { since: `${yesterday}T10:00`, until: `${yesterday}T11:00` };
  const recovery = await made(`/webhooks/${String(webhook['id'])}/recover`, body, 202);
  assert.equal(recovery['since'], `${yesterday}T10:00:00${OFFSET}`);
  assert.equal(recovery['until'], `${yesterday}T11:00:00${OFFSET}`);
});

test('the filter of a webhook needs an offset in dates of the resource, and takes others as they are written', async () => {
  const change = (filter: string) => ask('PATCH', `/webhooks/${String(webhook['id'])}`, { filter });
  for (const filter of [`date_modified:greaterthan=${DAY}`, `date_created:in=2026-11-20T00:00:00Z,${DAY}`]) {
    const { status, text } = await change(filter);
    assert.equal(status, 400, text);
    assert.match(text, /must have an offset from UTC/);
  }
  for (const filter of [`date_modified:greaterthan=${DAY}T00:00:00Z`, `start_date:greaterthan=${DAY}`, `id=${DAY}`])
    assert.equal((await change(filter)).status, 200, filter);
});
