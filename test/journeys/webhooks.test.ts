/** A webhook's life over HTTP: created, read, changed, replaced, deleted. */
import assert from 'node:assert/strict';
import { propertiesOf } from '#http/bodies/body.ts';
import { createSchemas } from '#webhooks/webhook-fields.ts';
import { test } from 'node:test';
import { eventsOf } from '#catalog/catalog.ts';
import { BASE_URL, faultsIn, minimal, startWebhookApi } from '../setup/webhook-api.ts';

const { call, sql, a, clock, changed } = await startWebhookApi();
const collection = `/stores/${a}/webhooks`;

const full = {
  name: 'Everything',
  format: 'json',
  version: '2',
  url: 'https://example.com/hook?x=1',
  query: 'zoom=items,items:item_options,customer',
  filter: 'total_order:greaterthan=100&currency_code=EUR',
  encryption_key: 'whsec_c2VjcmV0',
  event_resource: 'transaction',
  events: ['transaction/created', 'transaction/captured'],
  is_active: '0',
  headers: { 'X-Tenant': 'seven' },
  rate_per_second: 5,
  retry_profile: 'long',
  ordering: 'resource',
};

/** A pull webhook has no url, so it has a test of its own. */
const ELSEWHERE = new Set(['is_held']);

test('the sample has every property that can be written', () => {
  const { whole } = createSchemas(['2']);
  const writable = Object.entries(propertiesOf(whole))
    .filter(([name, { readOnly }]) => readOnly !== true && !ELSEWHERE.has(name))
    .map(([name]) => name);
  assert.deepEqual(Object.keys(full).toSorted(), writable.toSorted());
});

async function create(body: object = minimal) {
  const { status, body: webhook } = await call('POST', collection, { body });
  assert.equal(status, 201);
  return { webhook, path: `/webhooks/${String(webhook['id'])}`, id: Number(webhook['id']) };
}

test('a new webhook has the sent values, the defaults, and the exact links', async () => {
  const { status, headers, body } = await call('POST', collection, { body: minimal });
  assert.equal(status, 201);
  const self = `${BASE_URL}/webhooks/${String(body['id'])}`;
  assert.equal(headers.get('location'), self);
  const { _links: links, ...properties } = body;
  assert.deepEqual(properties, {
    id: properties['id'],
    name: 'Orders',
    format: 'json',
    version: '2',
    url: null,
    query: null,
    filter: null,
    encryption_key: 'a key of mine',
    next_encryption_key: null,
    public_key: null,
    next_public_key: null,
    rotation_ends: null,
    event_resource: null,
    events: [],
    is_active: '1',
    inactive_reason: null,
    is_held: '0',
    headers: {},
    rate_per_second: null,
    retry_profile: 'hour',
    ordering: null,
    state: 'inactive',
    reason: 'Nothing is sent: this webhook has no events. Set event_resource or events.',
    date_created: '2026-07-01T12:00:00+0200',
    date_modified: '2026-07-01T12:00:00+0200',
  });
  assert.equal(Number(properties['id']) % 256, a % 256);
  const { curies, ...own } = links;
  assert.deepEqual(curies, [{ name: 'svc', href: `${BASE_URL}/rels/{rel}`, templated: true }]);
  assert.ok(Object.values(own).every(({ title }) => title !== undefined && title !== ''));
  assert.deepEqual(
    Object.entries(own).map(([rel, { href }]) => [rel, href]),
    [
      ['self', self],
      ['svc:store', `${BASE_URL}/stores/${a}`],
      ['svc:webhooks', `${BASE_URL}/stores/${a}/webhooks`],
      ['svc:health', `${self}/health`],
      ['svc:statuses', `${self}/statuses`],
      ['svc:logs', `${self}/logs`],
      ['svc:recover', `${self}/recover`],
      ['svc:recoveries', `${self}/recoveries`],
      ['svc:test', `${self}/test`],
      ['svc:retry_pending', `${self}/retry_pending`],
      ['svc:rotate_key', `${self}/rotate_key`],
    ],
  );
});

test('every property is answered as it was sent, and GET answers the same bytes as POST', async () => {
  const { webhook, path } = await create(full);
  assert.deepEqual(Object.fromEntries(Object.keys(full).map((name) => [name, webhook[name]])), full);
  assert.equal(webhook['state'], 'inactive');
  assert.deepEqual((await call('GET', path)).body, webhook);
});

test('PATCH changes the sent properties and nothing else', async () => {
  const { webhook, path } = await create({ ...full, is_active: 1 });
  clock.time = new Date('2026-07-02T10:00:00Z');
  const { status, body } = await call('PATCH', path, { body: { name: 'Renamed', url: '' } });
  assert.equal(status, 200);
  const date_modified = '2026-07-02T12:00:00+0200';
  const { reason } = body;
  assert.match(String(reason), /no url/);
  assert.deepEqual(body, { ...webhook, name: 'Renamed', url: null, state: 'inactive', reason, date_modified });
  assert.deepEqual((await call('GET', path)).body, body);
});

test('PATCH of event_resource or events alone recomputes the other', async () => {
  const { path } = await create({ ...full, query: null });
  const both = async (body: object) => {
    const { body: webhook } = await call('PATCH', path, { body });
    return [webhook['event_resource'], webhook['events']];
  };
  assert.deepEqual(await both({ event_resource: 'customer' }), ['customer', eventsOf('customer')]);
  assert.deepEqual(await both({ events: ['subscription/cancelled'] }), ['subscription', ['subscription/cancelled']]);
  assert.deepEqual(await both({ events: [] }), [null, []]);
});

test('PUT sets omitted properties to their defaults', async () => {
  const { webhook, path } = await create(full);
  const { status, body } = await call('PUT', path, { body: { ...minimal, name: 'Replaced' } });
  assert.equal(status, 200);
  const { body: fresh } = await call('POST', collection, { body: { ...minimal, name: 'Replaced' } });
  const { id, date_created } = webhook;
  const { 'svc:passing': passing, ..._links } = webhook._links;
  assert.match(passing?.href ?? '', /\/transactions\?total_order%3Agreaterthan=100&currency_code=EUR$/);
  assert.deepEqual(body, { ...fresh, id, _links, date_created, date_modified: body['date_modified'] });
});

test('a representation can be put back: read-only members, links and embedded resources are ignored', async () => {
  const { webhook, path } = await create(full);
  const { status, body } = await call('PUT', path, { body: { ...webhook, _embedded: {}, id: 1, state: 'nonsense' } });
  assert.equal(status, 200);
  assert.deepEqual({ ...body, date_modified: '' }, { ...webhook, date_modified: '' });
  const patched = await call('PATCH', path, { body: { date_created: 'long ago', id: 'x' } });
  assert.deepEqual([patched.status, patched.body['date_created']], [200, webhook['date_created']]);
  const copied = await call('POST', collection, { body: { ...webhook, date_created: 'long ago' } });
  assert.deepEqual([copied.status, copied.body['date_created']], [201, patched.body['date_modified']]);
});

test('PUT requires the same properties as POST', async () => {
  const { path } = await create(full);
  assert.deepEqual(faultsIn(await call('PUT', path, { body: {} })), ['name required', 'format required']);
  const keyless = await call('PUT', path, { body: { name: 'x', format: 'json' } });
  assert.deepEqual(faultsIn(keyless), ['encryption_key required']);
});

test('DELETE answers 204 once, and 404 afterwards', async () => {
  const { path } = await create();
  const { status, headers, body } = await call('DELETE', path);
  assert.deepEqual([status, headers.get('content-type'), body], [204, null, {}]);
  for (const method of ['GET', 'DELETE']) assert.equal((await call(method, path)).status, 404);
  assert.equal((await call('PATCH', path, { body: { name: 'x' } })).status, 404);
  assert.equal((await call('GET', `${path}/statuses`)).status, 404);
});

test('each change is announced in its transaction', async () => {
  const { path, id } = await create();
  changed.length = 0;
  await call('PATCH', path, { body: { name: 'x' } });
  await call('PUT', path, { body: minimal });
  await call('PATCH', path, { body: { name: '' } });
  await call('DELETE', path);
  assert.deepEqual(
    changed,
    Array.from({ length: 3 }, () => ({ shard: a % 256, id })),
  );
});

test('a disable and the removal of the url increase the epoch once, each change increases the revision', async () => {
  const { path, id } = await create({ ...full, is_active: true });
  const after = async (body: object) => {
    assert.equal((await call('PATCH', path, { body })).status, 200);
    const [row] = await sql`select epoch, revision from webhook where shard = ${id % 256} and id = ${id}`;
    return [row?.['epoch'], row?.['revision']];
  };
  assert.deepEqual(await after({ name: 'x' }), [0, 2]);
  assert.deepEqual(await after({ is_active: 0, url: null }), [1, 3]);
  assert.deepEqual(await after({ is_active: false }), [1, 3], 'nothing changes');
  assert.deepEqual(await after({ is_active: '1', url: 'https://example.com' }), [1, 4]);
  assert.deepEqual(await after({ url: '' }), [2, 5]);
});

test('malformed ids are a 404', async () => {
  for (const id of ['0', '-5', '1.5', 'abc', '99999999999999999999', '%00']) {
    assert.equal((await call('GET', `/webhooks/${id}`)).status, 404, id);
  }
});
