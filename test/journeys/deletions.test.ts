/** The platform deletes resources, forwards requests for data, and erases customers: what is read afterwards, and what receivers get. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { formatDate } from '#hypermedia/date.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { SEED } from '../setup/seed.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { api, sql, clock, storeId, platformToken: token } = app;
const at = `/stores/${storeId}`;
const MINUTE_MS = 60_000;
const dated = (minutes: number): string => formatDate(new Date(clock.now().getTime() + minutes * MINUTE_MS), 'UTC');

type Json = Record<string, unknown>;
type Published = { id: number; resource_version: number };

async function publish(...events: Json[]): Promise<Published[]> {
  const answer = await api('POST', `${at}/events`, { token, body: events });
  assert.equal(answer.status, 200, await answer.clone().text());
  return ((await answer.json()) as { _embedded: { 'svc:events': Published[] } })._embedded['svc:events'];
}
const one = async (event: string, resource: Json): Promise<Published> =>
  (await publish({ event, resource }))[0] ?? assert.fail();
async function get(path: string): Promise<{ status: number; json: Json }> {
  const answer = await api('GET', at + path);
  return { status: answer.status, json: (await answer.json()) as Json };
}
type Fault = { code: string; message: string };
const faultOf = ({ json }: { json: Json }): Fault | undefined =>
  (json as { _embedded: { 'svc:errors': Fault[] } })._embedded['svc:errors'][0];
type Item = { id: unknown; date_deleted?: string; _links: Json };
async function list(path: string): Promise<{ total: unknown; items: Item[] }> {
  const { status, json } = await get(path);
  assert.equal(status, 200);
  return { total: json['total_items'], items: Object.values(json['_embedded'] as Record<string, Item[]>).flat() };
}
async function addWebhook(path: string, more: Json): Promise<string> {
  const body = { name: path, format: 'json', encryption_key: 'k', url: receiver.url + path, ...more };
  const made = await api('POST', `${at}/webhooks`, { body });
  assert.equal(made.status, 201, await made.clone().text());
  return `/webhooks/${((await made.json()) as { id: number }).id}`;
}
const gotAt = (path: string): Got[] => receiver.got.filter((got) => got.path === path);
const eventOf = ({ headers }: Got): unknown => headers['service-webhook-event'];
/** Returns the requests at the path, once there are so many. */
async function arrived(path: string, count: number): Promise<Got[]> {
  await until(
    async () => gotAt(path),
    (got) => got.length >= count,
  );
  return gotAt(path);
}
const bodyOf = ({ body }: Got): Json => JSON.parse(body.toString()) as Json;

test('a deleted resource is a 410 with the date, at every address below it, and lists leave it out', async () => {
  await publish(...[1, 2, 3].map((id) => ({ event: 'transaction/created', resource: { id, total: 9 } })));
  const deleted = await one('transaction/deleted', { id: 2, total: 9, date_modified: '2026-11-01T10:00:00+0100' });
  assert.equal(deleted.resource_version, 2);
  for (const path of ['/transactions/2', '/transactions/2/items', '/transactions/2/customer'])
    assert.deepEqual([(await get(path)).status, faultOf(await get(path))?.code], [410, 'deleted'], path);
  assert.match(faultOf(await get('/transactions/2'))?.message ?? '', /2026-11-01T/);
  const sent = await api('POST', `${at}/transactions/2/send_webhooks`, { body: {} });
  assert.equal(sent.status, 410);
  const idsOf = async (query: string) => {
    const { total, items } = await list(`/transactions${query}`);
    return [total, ...items.map(({ id }) => id)];
  };
  assert.deepEqual(await idsOf(''), ['2', 1, 3]);
  assert.deepEqual(await idsOf('?order=total'), ['2', 1, 3]);
  assert.deepEqual(await idsOf('?id=2'), ['0']);
  assert.deepEqual(await idsOf('?deleted=0&limit=1&offset=1'), ['2', 3]);
  assert.deepEqual(await idsOf('?deleted=1'), ['1', 2]);
  const [item] = (await list('/transactions?deleted=1')).items;
  assert.deepEqual(Object.keys(item ?? {}).toSorted(), ['_links', 'date_deleted', 'id']);
  assert.deepEqual(Object.keys(item?._links ?? {}), ['curies', 'self', 'svc:store']);
  assert.equal(Date.parse(item?.date_deleted ?? ''), Date.parse('2026-11-01T09:00:00Z'));
  assert.deepEqual(await idsOf('?deleted=1&date_deleted:greaterthan=2026-10-01&order=date_deleted'), ['1', 2]);
  assert.deepEqual(await idsOf('?deleted=1&date_deleted:lessthan=2026-10-01'), ['0']);
  for (const query of ['deleted=1&date_deleted=soon', 'deleted=2', 'deleted:not=1', 'deleted=1&deleted:not=0'])
    assert.equal((await get(`/transactions?${query}`)).status, 400, query);
  // A type that the platform cannot delete has no such filter: the property is the publisher's.
  await one('transaction_log/created', { id: 1, deleted: 1 });
  assert.equal((await list('/transaction_logs?deleted=1')).total, '1');
});

test('a load brings a deleted resource back only with a later date', async () => {
  await one('transaction/created', { id: 41, total: 9 });
  await one('transaction/deleted', { id: 41, date_modified: '2026-06-01T10:00:00Z' });
  for (const [date, result, status] of [
    ['2026-05-01T10:00:00Z', 'kept', 410],
    ['2026-07-01T10:00:00Z', 'loaded', 200],
  ] as const) {
    const body = { type: 'transaction', resource: { id: 41, total: 8, date_modified: date } };
    const answer = (await (await api('POST', `${at}/load`, { token, body })).json()) as Json;
    assert.equal(Object.values(answer['_embedded'] as Record<string, Json[]>).flat()[0]?.['result'], result);
    assert.equal((await get('/transactions/41')).status, status);
  }
});

test('a deletion whose date is in the future has the date of its publication, and a warning', async () => {
  await one('customer/created', { id: 51 });
  const ahead = new Date(clock.now().getTime() + 7_200_000).toISOString();
  const [deleted] = await publish({ event: 'customer/deleted', resource: { id: 51, date_modified: ahead } });
  assert.deepEqual(
    ((deleted as Published & { warnings?: Fault[] }).warnings ?? []).map(({ code }) => code),
    ['ahead'],
  );
  const late = await one('customer/modified', { id: 51, date_modified: dated(-10) });
  assert.equal(late.resource_version, 0);
  assert.equal((await get('/customers/51')).status, 410);
});

test('subscribers get a body of id and links, whatever their filter and fields', async () => {
  await addWebhook('/plain', { event_resource: 'transaction' });
  await addWebhook('/narrow', { event_resource: 'transaction', query: 'fields=total&links=self', filter: 'total=9' });
  await publish(
    { event: 'transaction/created', resource: { id: 'a-1', total: 9 } },
    { event: 'transaction/created', resource: { id: 'a-2', total: 8 } },
    { event: 'transaction/deleted', resource: { id: 'a-1', total: 9, email: 'ada@example.com' } },
    { event: 'transaction/deleted', resource: { id: 'a-2' } },
  );
  // Deliveries of different resources may overtake each other.
  const byId = (a: Json, b: Json): number => String(a['id']).localeCompare(String(b['id']));
  const deletedAt = async (path: string, count: number): Promise<Json[]> =>
    (await arrived(path, count))
      .filter((got) => eventOf(got) === 'transaction/deleted')
      .map(bodyOf)
      .toSorted(byId);
  const plain = await deletedAt('/plain', 4);
  assert.deepEqual(
    plain.map(({ _links, ...rest }) => [Object.keys(_links as Json), rest]),
    [
      [['curies', 'self', 'svc:store'], { id: 'a-1' }],
      [['curies', 'self', 'svc:store'], { id: 'a-2' }],
    ],
  );
  const narrow = await deletedAt('/narrow', 3);
  assert.deepEqual(
    narrow.map(({ id }) => id),
    ['a-1', 'a-2'],
  );
  assert.equal(gotAt('/narrow').length, 3);
  const { items } = await list('/events?event=transaction/deleted&resource_id=a-1');
  const payload = (await get(`/events/${String(items[0]?.id)}/payload?fields=total`)).json;
  assert.equal(payload['id'], 'a-1');
});

test('a deleted subscription is cancelled, and has no revenue', async () => {
  const resource = { id: 71, is_active: true, frequency: '1m', currency_code: 'EUR', total_order: 5 };
  const stepsOf = async () =>
    (await list('/subscription_events?subscription_id=71')).items.map((step) => (step as unknown as Json)['event']);
  await one('subscription/created', resource);
  await one('subscription/deleted', { id: 71 });
  assert.deepEqual(await stepsOf(), ['activated', 'cancelled']);
  await one('subscription/deleted', { id: 71 });
  assert.equal((await stepsOf()).length, 2);
  await one('subscription/created', resource);
  assert.deepEqual(await stepsOf(), ['activated', 'cancelled', 'activated']);
  assert.equal((await get('/subscriptions/71')).status, 200);
});

test('a request for data is sent with the id only, and changes nothing', async () => {
  await addWebhook('/requests', { events: ['customer/data_requested'], filter: 'email=eve@example.org' });
  const created = await one('customer/created', { id: 31, email: 'ada@example.com' });
  const before = (await get('/customers/31')).json;
  const asked = await one('customer/data_requested', { id: 31, email: 'eve@example.com' });
  assert.deepEqual([created.resource_version, asked.resource_version], [1, 0]);
  assert.deepEqual((await get('/customers/31')).json, before);
  assert.equal((await one('customer/data_requested', { id: 32 })).resource_version, 0);
  assert.equal((await get('/customers/32')).status, 404);
  const bodies = (await arrived('/requests', 2)).map((got) => bodyOf(got)['id']);
  assert.deepEqual(bodies, [31, 32]);
  // The erasure finds it by the chain of events.
  assert.deepEqual((await list('/events?resource_id=31')).total, '2');
});

test('an erasure is sent to each webhook that may have data of the customer, and recorded without the data', async () => {
  const paused = await addWebhook('/paused', { events: ['customer/created'], is_active: '0' });
  await addWebhook('/created', { events: ['customer/created'], filter: 'email=ada@example.com' });
  await addWebhook('/embedding', { events: ['transaction/created'], query: 'zoom=subscription:customer' });
  await addWebhook('/other', { events: ['transaction/created'] });
  await addWebhook('/changes', { event_resource: 'changelog', query: 'links=self' });
  const created = await one('customer/created', { id: 'c-9', email: 'ada@example.com' });
  const refused = await api('POST', `${at}/events`, {
    token,
    body: { event: 'customer/erased', resource: { id: 'c-9' } },
  });
  assert.equal(refused.status, 409);
  // An erasure ends the deliveries of the customer that wait.
  await arrived('/created', 1);
  const erasure = await api('DELETE', `${at}/customers/c-9`, { token });
  assert.equal(erasure.status, 204);
  assert.equal((await get('/customers/c-9')).status, 404);

  const [, erased] = await arrived('/created', 2);
  assert.equal(eventOf(erased ?? assert.fail()), 'customer/erased');
  const { _links: links, ...rest } = bodyOf(erased ?? assert.fail());
  assert.deepEqual([typeof links, rest], ['object', { id: 'c-9' }]);
  assert.equal(erased?.headers['service-webhook-resource-version'], String(created.resource_version + 1));
  assert.equal(eventOf((await arrived('/embedding', 1))[0] ?? assert.fail()), 'customer/erased');
  // The receipt for the person: which receivers have confirmed it.
  const receipt = erasure.headers.get('location')?.slice(`${app.baseUrl}${at}`.length) ?? assert.fail();
  const confirmed = await until(
    async () => (await list(receipt)).items as unknown as Json[],
    (rows) => rows.every((row) => row['date_ended'] !== null),
  );
  assert.ok(confirmed.length >= 2);
  const outcomes = new Set(confirmed.map((row) => `${String(row['event'])} ${String(row['status'])}`));
  assert.deepEqual([...outcomes], ['customer/erased successful']);

  const entry = (await arrived('/changes', 2)).map(bodyOf).find((body) => body['action'] === 'erased');
  const { resource, resource_id: resourceId, action, actor, before, after } = entry ?? {};
  assert.deepEqual(
    { resource, resourceId, action, actor, before, after },
    {
      resource: 'customer',
      resourceId: 'c-9',
      action: 'erased',
      actor: 'platform',
      before: { id: 'c-9' },
      after: null,
    },
  );

  // A webhook that was disabled gets it by a recovery.
  assert.equal((await api('PATCH', paused, { body: { is_active: '1' } })).status, 200);
  assert.equal(
    (await api('POST', `${paused}/recover`, { body: { since: dated(-5), resource_id: 'c-9' } })).status,
    202,
  );
  assert.deepEqual((await arrived('/paused', 1)).map(eventOf), ['customer/erased']);
  assert.deepEqual(gotAt('/other'), []);
  // Version numbers continue after an erasure.
  assert.equal((await one('customer/created', { id: 'c-9' })).resource_version, created.resource_version + 2);
});

type Step = { action: 'modified' | 'deleted' | 'data_requested'; minutes: number | null };
type Model = { exists: boolean; isDeleted: boolean; newest: number };

/** Applies a step to the state of a resource, and returns whether its event is a version. */
function apply(model: Model, { action, minutes }: Step): boolean {
  if (action === 'data_requested' || (minutes !== null && minutes < model.newest)) return false;
  model.exists = true;
  model.isDeleted = action === 'deleted';
  if (minutes !== null) model.newest = minutes;
  else if (model.isDeleted) model.newest = Math.max(model.newest, 0);
  return true;
}

test('in any order, with or without dates, in one request or several, the newest version decides', async () => {
  let last = 0;
  const step = fc.record({
    action: fc.constantFrom<Step['action'][]>('modified', 'modified', 'deleted', 'data_requested'),
    minutes: fc.constantFrom(null, null, -30, -20, -10, 30),
  });
  const run = async (requests: Step[][]): Promise<void> => {
    last += 1;
    const id = `walk-${last}`;
    const model: Model = { exists: false, isDeleted: false, newest: -Infinity };
    let newest = 0;
    for (const steps of requests) {
      const events = steps.map(({ action, minutes }) => {
        const resource = { id, ...(minutes !== null && { date_modified: dated(minutes) }) };
        return { event: `customer/${action}`, resource };
      });
      const published = await publish(...events);
      for (const [index, { resource_version: version }] of published.entries()) {
        const isVersion = apply(model, steps[index] ?? assert.fail());
        // Numbers may be skipped.
        assert.ok(isVersion ? version > newest : version === 0, `${JSON.stringify(steps[index])}: ${version}`);
        newest = Math.max(newest, version);
      }
    }
    const expected = !model.exists ? 404 : model.isDeleted ? 410 : 200;
    assert.equal((await get(`/customers/${id}`)).status, expected);
  };
  const requests = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 });
  await fc.assert(fc.asyncProperty(requests, run), { numRuns: 60, seed: SEED });
  const counted = await sql<{ live: number; deleted: number }[]>`
    select count(*) filter (where date_deleted is null)::int as live, count(date_deleted)::int as deleted
    from resource where type = 'customer' and id like 'walk-%'`;
  const totalOf = async (query: string) => Number((await list(`/customers?id=walk-*${query}`)).total);
  assert.deepEqual([{ live: await totalOf(''), deleted: await totalOf('&deleted=1') }], [...counted]);
});
