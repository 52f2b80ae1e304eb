/** Filters of webhooks: which events are delivered, by the payload, in all processes and in every way that makes deliveries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { transaction } from '#db/pool.ts';
import { createIdAllocator } from '#db/partitions.ts';
import { createInternalEventWriter } from '#events/publish/internal-event.ts';
import { Problem } from '#core/problem.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { listen } from '../setup/pull-listener.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { storesOf } from '../setup/suite-map.ts';

const fixture = await openPublishFixture(['serve', 'deliver']);
const { app, sql, storeId, ask, publish } = fixture;
const other = await app.startSecond();
const receiver = await startReceiver();
const STORE = `/stores/${storeId}`;

type Json = Record<string, unknown>;

async function call(method: string, path: string, body?: Json) {
  const response = await ask(app.baseUrl, method, path, { ...(body && { body }) });
  const json = JSON.parse((await response.text()) || '{}') as Json;
  const faults = (json['_embedded'] as Record<string, { code: string; message: string }[]> | undefined)?.['svc:errors'];
  return { status: response.status, json, faults: faults ?? [], location: response.headers.get('location') ?? '' };
}
async function add(filter: string | null, more: Json = {}): Promise<{ id: number; path: string }> {
  const plain = { name: 'Large orders', format: 'json', encryption_key: 'k', event_resource: 'transaction', filter };
  const { status, json } = await call('POST', `${STORE}/webhooks`, { ...plain, url: receiver.url, ...more });
  assert.equal(status, 201, JSON.stringify(json));
  return { id: Number(json['id']), path: `/webhooks/${Number(json['id'])}` };
}
const change = async (path: string, body: Json) => assert.equal((await call('PATCH', path, body)).status, 200);

let last = 0;
const order = (total: number, more: Json = {}) => ({
  event: 'transaction/created',
  resource: { id: (last += 1), total_order: total, currency_code: 'EUR', ...more },
});
/** Publishes to one of the processes, and returns the ids of the events. */
async function publishTo(origin: string, ...orders: Json[]): Promise<number[]> {
  const { status, events, text } = await publish(origin, orders);
  assert.equal(status, 200, text);
  return events.map(({ id }) => id);
}
/** Returns the events that have a delivery to the webhook. */
async function eventsOf({ id }: { id: number }): Promise<number[]> {
  const rows = await sql<{ id: number }[]>`
    select event_id as id from delivery where webhook_id = ${id}
    union select event_id from delivery_done where webhook_id = ${id} order by id`;
  return rows.map((row) => row.id);
}

const ordered = (ids: readonly number[]): number[] => ids.toSorted((a, b) => a - b);

test('only events that pass the filter are delivered', async () => {
  const webhook = await add('total_order:greaterthan=100&/_embedded/svc:items/0/code:in=tea,cup', {
    url: `${receiver.url}/passing`,
  });
  const items = (code: string) => ({ _embedded: { 'svc:items': [{ code }] } });
  const ids = await publishTo(
    app.baseUrl,
    order(100, items('tea')),
    order(100.01, items('tea')),
    order(500, items('hat')),
    order(500),
  );
  assert.deepEqual(await eventsOf(webhook), [ids[1]]);
  const [got] = await until(
    async () => receiver.got.filter(({ path }) => path === '/passing'),
    ({ length }) => length > 0,
  );
  assert.equal((JSON.parse(String(got?.body)) as Json)['total_order'], 100.01);
  await call('DELETE', webhook.path);
});

test('the results of filters belong to their events, also beside events of another type', async () => {
  const webhook = await add('currency_code=USD');
  // In the order of locks customers precede transactions.
  const customer = (id: number) => ({ event: 'customer/created', resource: { id } });
  const dollars = () => order(1, { currency_code: 'USD' });
  for (let n = 0; n < 2; n += 1) {
    const before = await eventsOf(webhook);
    const ids = await publishTo(other, dollars(), customer(1), order(1), customer(2), customer(3), dollars());
    assert.deepEqual((await eventsOf(webhook)).slice(before.length), [ids[0], ids[5]]);
  }
  await call('DELETE', webhook.path);
});

test('a changed filter applies to the next publish in every process, also beside webhooks without one', async () => {
  const [webhook, all] = [await add(null), await add(null)];
  const expected: number[] = [];
  const published: number[] = [];
  const steps: [filter: string | null, isEurDelivered: boolean, isUsdDelivered: boolean][] = [
    [null, true, true],
    ['currency_code=EUR', true, false],
    ['currency_code=USD', false, true],
    ['currency_code=EUR', true, false],
    [null, true, true],
  ];
  for (const [filter, ...isDelivered] of steps) {
    await change(webhook.path, { filter });
    for (const origin of [app.baseUrl, other]) {
      const ids = await publishTo(origin, order(1), order(1, { currency_code: 'USD' }));
      published.push(...ids);
      expected.push(...ids.filter((_, at) => isDelivered[at]));
    }
  }
  assert.deepEqual(await eventsOf(webhook), ordered(expected));
  assert.deepEqual(await eventsOf(all), ordered(published));
  for (const { path } of [webhook, all]) await call('DELETE', path);
});

test('a filter of a webhook that was disabled applies when it is enabled, and so after a change of its resource', async () => {
  const webhook = await add('currency_code=USD', { is_active: '0' });
  await publishTo(other, order(1));
  await change(webhook.path, { is_active: '1' });
  const [, dollars] = await publishTo(other, order(1), order(1, { currency_code: 'USD' }));
  assert.deepEqual(await eventsOf(webhook), [dollars]);
  await change(webhook.path, { event_resource: 'customer' });
  await publishTo(other, { event: 'customer/created', resource: { id: 1 } });
  assert.deepEqual(await eventsOf(webhook), [dollars]);
  await call('DELETE', webhook.path);
});

test('the events that Halcyon makes are filtered: steps of subscriptions and entries of the changelog', async () => {
  const steps = await add('event=activated', { event_resource: 'subscription_event' });
  const entries = await add('resource=webhook&action=changed', { event_resource: 'changelog' });
  const running = {
    id: 1,
    is_active: true,
    frequency: '1m',
    start_date: '2026-06-01',
    next_transaction_date: '2026-08-01',
  };
  for (const resource of [running, { ...running, frequency: '1y' }])
    await publishTo(other, { event: 'subscription/modified', resource });
  assert.equal((await eventsOf(steps)).length, 1);
  assert.equal((await eventsOf(entries)).length, 0);
  await change(steps.path, { name: 'Steps' });
  assert.equal((await eventsOf(entries)).length, 1);
  await call('DELETE', steps.path);
  assert.equal((await eventsOf(entries)).length, 1);
  // The entry of the change itself is compared with the new filter.
  await change(entries.path, { filter: 'action=deleted' });
  assert.equal((await eventsOf(entries)).length, 1);
  await call('DELETE', entries.path);
});

test('an internal event is not written if a filter is set at the same time, and the request can be repeated', async () => {
  const allocate = createIdAllocator();
  let webhook: { path: string } | undefined;
  const write = createInternalEventWriter({
    baseUrl: app.baseUrl,
    announce: async () => {},
    // After the filters were read.
    allocateIds: async (...args) => {
      webhook ??= await add('resource=store', { event_resource: 'changelog' });
      return allocate(...args);
    },
  });
  const entry = {
    resource: 'store',
    resource_id: storeId,
    action: 'changed',
    actor: 'operator',
    user: null,
    client: null,
  } as const;
  const resource = ({ id }: { id: number }) => ({ ...entry, id, before: null, after: null, date_created: '' });
  const attempt = () =>
    transaction(storesOf(sql), (tx) => write(tx, [{ storeId, type: 'changelog', resource }], app.clock.now()));
  await assert.rejects(
    attempt,
    (error) => error instanceof Problem && error.status === 503 && error.faults[0]?.code === 'busy',
  );
  assert.equal((await attempt()).length, 1);
  await call('DELETE', webhook?.path ?? '');
});

test('a replay is sent to the webhooks whose filter the resource passes', async () => {
  const [large, small] = [await add('total_order:greaterthan=100'), await add('total_order:lessthan=100')];
  await publishTo(app.baseUrl, order(500, { id: 'replayed' }));
  const path = `${STORE}/transactions/replayed/send_webhooks`;
  const named = await call('POST', path, { webhooks: [large.id, small.id] });
  assert.deepEqual([named.status, named.faults.length], [400, 1]);
  assert.match(named.faults[0]?.message ?? '', new RegExp(`${small.id} .*filter`));
  const { status, json } = await call('POST', path);
  assert.equal(status, 202);
  assert.equal((await eventsOf(large)).at(-1), json['id']);
  assert.deepEqual(await eventsOf(small), []);
  await change(large.path, { filter: 'total_order:greaterthan=1000' });
  const none = await call('POST', path);
  assert.deepEqual([none.status, none.faults[0]?.code], [409, 'nothing_to_send']);
  for (const webhook of [large, small]) await call('DELETE', webhook.path);
});

test('a recovery sends the missed events that pass the filter', async () => {
  const webhook = await add('note=*missed', { is_active: '0' });
  const ids = await publishTo(
    app.baseUrl,
    ...Array.from({ length: 70 }, (_, n) => order(1, { note: n === 3 || n === 65 ? 'Missed' : 'other' })),
  );
  await change(webhook.path, { is_active: '1' });
  const since = new Date(app.clock.now().getTime() - 60_000).toISOString();
  const { location } = await call('POST', `${webhook.path}/recover`, { since });
  const { json } = await until(
    () => call('GET', new URL(location).pathname),
    (answer) => answer.json['date_ended'] !== null,
  );
  assert.deepEqual([json['state'], json['events_recovered']], ['finished', 2]);
  assert.deepEqual(await eventsOf(webhook), [ids[3], ids[65]]);
  await call('DELETE', webhook.path);
});

test('a pull webhook gets the events that pass its filter', async (t) => {
  const webhook = await add('total_order:greaterthan=100', { is_held: '1', url: null });
  const listener = await listen(app, webhook.path);
  t.after(listener.hangUp);
  const [, large] = await publishTo(other, order(50), order(500));
  await listener.deliveries(1);
  assert.deepEqual(await eventsOf(webhook), [large]);
  await call('DELETE', webhook.path);
});

test('a test delivery is sent whatever the filter', async () => {
  const webhook = await add('currency_code=none', { url: `${receiver.url}/tested` });
  const { json } = await call('POST', `${webhook.path}/test`);
  assert.equal(json['outcome'], 'delivered');
  await call('DELETE', webhook.path);
});
