/** The events of a store, and the deliveries of one event over all webhooks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { openSecondStore } from '../setup/second-store.ts';

const app = await startTestApp({ roles: ['serve'] });
const second = await openSecondStore(app);
const { storeId, platformToken, sql } = app;
const shard = storeId % 256;
const events = `/stores/${storeId}/events`;

type Json = Record<string, unknown>;
type Links = Record<string, { href: string; title?: string }>;
type Item = Json & { _links: Links };
type Page = Item & { _embedded: Record<string, Item[]> };

async function get(path: string, token?: string) {
  const response = await app.api('GET', path, token === undefined ? {} : { token });
  return { status: response.status, body: (await response.json()) as Page };
}
async function publish(event: string, id: number | string, store = storeId): Promise<Page> {
  const body = { event, resource: { id } };
  const response = await app.api('POST', `/stores/${store}/events`, { token: platformToken, body });
  assert.equal(response.status, 201);
  return (await response.json()) as Page;
}
async function hook(store = storeId, token = app.token): Promise<number> {
  const body = {
    name: 'w',
    format: 'json',
    encryption_key: 'k',
    url: 'http://127.0.0.1:9/',
    event_resource: 'transaction',
  };
  const made = await app.api('POST', `/stores/${store}/webhooks`, { body, token });
  return Number(((await made.json()) as Json)['id']);
}
/** Leaves out the events of the changelog about the creation of the webhooks. */
const PUBLISHED = 'resource_type:not=changelog';
async function list(query = '', path = events) {
  const narrowed = path === events ? `${query === '' ? '?' : `${query}&`}${PUBLISHED}` : query;
  const { status, body } = await get(path + narrowed);
  assert.equal(status, 200, JSON.stringify(body));
  return { body, items: body._embedded[`svc:${path.split('/').at(-1)}`] ?? [] };
}

const [first, other] = [await hook(), await hook()];
await hook(second.storeId, second.token);
const made = [
  await publish('transaction/created', 1),
  await publish('customer/created', 'c 1'),
  await publish('transaction/refunded', 1),
  await publish('transaction/created', 2),
];
await publish('transaction/created', 1, second.storeId);
const [created] = made;
const statuses = `${created?._links['self']?.href}/statuses`;

test('events are listed newest first, and each equals the event itself', async () => {
  const { body, items } = await list();
  assert.deepEqual(items, made.toReversed());
  assert.equal(body['total_items'], '4');
  assert.equal(body._links['svc:store']?.href, `${app.baseUrl}/stores/${storeId}`);
});

test('an event links to its store, its resource, its payload and its deliveries', async () => {
  const links = created?._links ?? {};
  assert.deepEqual(Object.keys(links), [
    'curies',
    'self',
    'svc:store',
    'svc:events',
    'svc:resource',
    'svc:payload',
    'svc:statuses',
  ]);
  for (const [rel, { href }] of Object.entries(links)) {
    if (rel !== 'curies') assert.equal((await get(href)).status, 200, rel);
  }
});

test("an event of the time of an older BASE_URL has links with today's", async () => {
  const id = Number(made[3]?.['id']);
  await sql`update event set base_url = 'https://old.example.com' where shard = ${shard} and id = ${id}`;
  assert.deepEqual((await list('?resource_id=2')).items, [made[3]]);
  assert.deepEqual((await get(`${events}/${id}`)).body, made[3]);
});

const found: readonly (readonly [query: string, indexes: readonly number[]])[] = [
  ['?event=transaction/created', [3, 0]],
  ['?event=transaction/*', [3, 2, 0]],
  ['?resource_type=customer', [1]],
  ['?resource_type=transaction&resource_id=1', [2, 0]],
  ['?resource_version:greaterthan=1', [2]],
  ['?date_created:greaterthan=2000-01-01&limit=1', [3]],
  ['?date_created:lessthan=2000-01-01', []],
  ['?order=id', [0, 1, 2, 3]],
  ['?order=resource_type,resource_id desc', [1, 3, 2, 0]],
  ['?limit=2&offset=2', [1, 0]],
];
for (const [query, indexes] of found) {
  test(`events${query}`, async () => {
    const ids = (await list(query)).items.map(({ id }) => id);
    assert.deepEqual(
      ids,
      indexes.map((index) => made[index]?.['id']),
    );
  });
}

test('an unknown parameter is rejected', async () => {
  for (const query of ['?colour=red', '?zoom=resource', '?fields=body', '?date_created=soon']) {
    assert.equal((await get(events + query)).status, 400, query);
  }
});

test('events of another store, and their deliveries, are not found', async () => {
  for (const path of [events, statuses]) assert.equal((await get(path, second.token)).status, 404);
  const id = String(created?.['id']);
  assert.equal((await get(`/stores/${second.storeId}/events/${id}/statuses`, second.token)).status, 404);
  for (const path of [`/stores/${storeId + 256}/events`, `${events}/1/statuses`, `${events}/x/statuses`]) {
    assert.equal((await get(path, platformToken)).status, 404, path);
  }
});

test('a list of events has no event of another store on the same shard', async () => {
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    select shard, id + 256 * 1000, ${storeId + 256}, resource_type, resource_id, action, version, nonce, time_zone,
      base_url, date_created, body
    from event where shard = ${shard} and store_id = ${storeId}`;
  assert.deepEqual((await list()).items, made.toReversed());
});

test('an event has a delivery for each webhook that matches it', async () => {
  const { body, items } = await list('?order=webhook_id', statuses);
  assert.deepEqual(
    items.map((item) => [item['webhook_id'], item['status'], item['event'], item['resource_id']]),
    [first, other].map((id) => [id, 'pending', 'transaction/created', '1']),
  );
  assert.equal(body['total_items'], '2');
  assert.equal(body._links['svc:event']?.href, created?._links['self']?.href);
  for (const item of items) {
    assert.equal(item._links['svc:webhook']?.href, `${app.baseUrl}/webhooks/${String(item['webhook_id'])}`);
  }
  assert.equal((await list('', `${String(made[1]?._links['self']?.href)}/statuses`)).body['total_items'], '0');
});

test('a delivery is the same among those of its event and those of its webhook', async () => {
  const { items } = await list(`?webhook_id=${first}`, statuses);
  const all = (await list('', `/webhooks/${first}/statuses`)).items;
  assert.equal(items.length, 1);
  assert.ok(all.some((one) => JSON.stringify(one) === JSON.stringify(items[0])));
});

test('the next attempt of a delivery is not shown earlier than the pause or the probe of its webhook', async () => {
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, paused_until, probe_at)
    values (${shard}, ${first}, 0, 5, now(), '2099-01-01T00:00:00Z', '2098-01-01T00:00:00Z'),
      (${shard}, ${other}, 0, 5, now(), null, '2098-01-01T00:00:00Z')`;
  const { items } = await list('?date_next:greaterthan=2097-01-01&order=date_next', statuses);
  assert.deepEqual(
    items.map((item) => [item['webhook_id'], String(item['date_next']).slice(0, 4)]),
    [
      [other, '2098'],
      [first, '2099'],
    ],
  );
  await sql`delete from webhook_state`;
});

test('the deliveries of an event can be filtered and ordered by all that they show', async () => {
  const idsOf = async (query: string) => (await list(query, statuses)).items.map((item) => item['webhook_id']);
  assert.deepEqual(await idsOf('?order=webhook_id desc'), [other, first]);
  assert.deepEqual(await idsOf('?status=failed'), []);
  assert.deepEqual(await idsOf(`?webhook_id:not=${first}`), [other]);
  assert.deepEqual(await idsOf('?limit=1&offset=2'), []);
});

test("deliveries of another store's row for the same event are not shown", async () => {
  const eventId = Number(created?.['id']);
  await sql`
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
    values (${shard}, ${eventId + 256 * 1_000}, ${storeId + 256}, ${first}, ${eventId}, 'successful', 1, now())`;
  assert.equal((await list('', statuses)).body['total_items'], '2');
});

test('completed deliveries are listed beside pending ones, and no link leads to a deleted webhook', async () => {
  const eventId = Number(created?.['id']);
  await sql`
    with ended as (delete from delivery where webhook_id = ${first} and event_id = ${eventId} returning *)
    insert into delivery_done (shard, id, store_id, webhook_id, event_id, state, attempts, date_ended)
    select shard, id, store_id, webhook_id, event_id, 'successful', 2, now() from ended`;
  for (const id of [first, other]) assert.equal((await app.api('DELETE', `/webhooks/${id}`)).status, 204);
  const { items } = await list('?order=webhook_id', statuses);
  assert.deepEqual(
    items.map((item) => [item['webhook_id'], item['status'], item['attempts'], item._links['svc:webhook']]),
    [
      [first, 'successful', 2, undefined],
      [other, 'failed', 0, undefined],
    ],
  );
});

test('nothing is read of an erased store, though its rows are still there', async () => {
  const paths = [events, `${events}/${String(created?.['id'])}`, statuses, `/stores/${storeId}/transactions/1`];
  for (const path of paths) assert.equal((await get(path, platformToken)).status, 200, path);
  assert.equal((await app.api('DELETE', `/stores/${storeId}`, { token: platformToken })).status, 204);
  for (const path of paths) assert.equal((await get(path, platformToken)).status, 404, path);
});

test('internal events are listed among the events of the platform, in the order in which all happened', async () => {
  const there = { name: 'w', format: 'json', encryption_key: 'k', url: 'http://127.0.0.1:9/' };
  const before = await publish('customer/created', 'between', second.storeId);
  const hooked = await app.api('POST', `/stores/${second.storeId}/webhooks`, { body: there, token: second.token });
  assert.equal(hooked.status, 201, await hooked.text());
  const after = await publish('customer/modified', 'between', second.storeId);
  const { body } = await get(`/stores/${second.storeId}/events?limit=3`, second.token);
  const listed = body._embedded['svc:events'] ?? [];
  assert.deepEqual(
    listed.map((item) => item['event']),
    ['customer/modified', 'changelog/created', 'customer/created'],
  );
  assert.deepEqual([listed[0]?.['id'], listed[2]?.['id']], [after['id'], before['id']]);
});

test('an event that took its number early is listed by the time it happened', async () => {
  const early = await publish('customer/created', 'early', second.storeId);
  await publish('customer/created', 'late', second.storeId);
  await sql`update event set date_created = date_created + interval '1 minute' where id = ${Number(early['id'])}`;
  const { body } = await get(`/stores/${second.storeId}/events?limit=2`, second.token);
  assert.deepEqual(
    body._embedded['svc:events']?.map((item) => item['resource_id']),
    ['early', 'late'],
  );
});
