/** The lifecycle events of a subscription: versions are published, steps are derived, delivered and read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';

const app = await startTestApp();
const { storeId, platformToken } = app;
const receiver = await startReceiver();

type Json = Record<string, unknown>;
type Reply = Json & { _links: Record<string, { href: string }>; _embedded: Record<string, Reply[]> };

const replyOf = async (response: Response): Promise<Reply> => (await response.json()) as Reply;
const get = (path: string) => app.api('GET', path.startsWith('/') ? `/stores/${storeId}${path}` : path);
const publish = (body: unknown, store = storeId) =>
  app.api('POST', `/stores/${store}/events`, { token: platformToken, body });

const running = {
  frequency: '1m',
  is_active: true,
  start_date: '2026-06-01T00:00:00+0200',
  next_transaction_date: '2026-08-01T00:00:00+0200',
  end_date: null,
  past_due_amount: 0,
};
const version = (id: number | string, changes: Json, action = 'modified') => ({
  event: `subscription/${action}`,
  resource: { id, ...running, ...changes },
});

/** Returns the steps of one subscription, in the order in which they were derived. */
async function stepsOf(id: number | string): Promise<Reply[]> {
  const list = await replyOf(await get(`/subscription_events?limit=300&order=id&subscription_id=${id}`));
  return list._embedded['svc:subscription_events'] ?? [];
}
const eventsOf = async (id: number | string): Promise<unknown[]> => (await stepsOf(id)).map(({ event }) => event);

const NEXT = { next_transaction_date: '2026-09-01T00:00:00+0200' };
const OWING = { ...NEXT, past_due_amount: '19.00', error_message: 'declined' };
const PAID = { ...NEXT, past_due_amount: 0, error_message: null };
const life = (id: number) => [
  version(id, {}, 'created'),
  version(id, NEXT),
  version(id, OWING),
  version(id, { ...OWING, error_message: 'expired' }),
  version(id, PAID),
  version(id, { ...PAID, frequency: '1y' }),
  version(id, { ...PAID, frequency: '1y', end_date: '2026-12-31' }, 'cancelled'),
  version(id, { ...PAID, frequency: '1y', end_date: '2026-12-31', is_active: false }),
];
const LIFE = [
  'activated',
  'billing_success',
  'billing_failure',
  'dunning',
  'recovered',
  'modified',
  'cancelled',
  'modified',
];

test('the steps of versions published one by one are derived in order', async () => {
  for (const one of life(100)) assert.equal((await publish(one)).status, 201);
  assert.deepEqual(await eventsOf(100), LIFE);
});

test('the steps of versions in one array are derived in the same order', async () => {
  assert.equal((await publish(life(101))).status, 200);
  assert.deepEqual(await eventsOf(101), LIFE);
});

test('several steps of one version have a fixed order', async () => {
  await publish(version(102, OWING, 'created'));
  await publish(version(102, { ...PAID, next_transaction_date: '2026-10-01T00:00:00+0200', frequency: '1y' }));
  assert.deepEqual(await eventsOf(102), ['activated', 'recovered', 'billing_success', 'modified']);
});

test('an older version derives no step, whether it comes alone or in an array', async () => {
  const at = (date: string, changes: Json) => version(103, { ...changes, date_modified: `${date}T12:00:00+0000` });
  await publish(at('2026-06-10', { is_active: false }));
  await publish([
    at('2026-06-09', {}),
    at('2026-06-11', { is_active: false, note: 'b' }),
    at('2026-06-10', { note: 'a' }),
  ]);
  assert.deepEqual(await eventsOf(103), ['modified']);
  await publish(at('2026-06-08', {}));
  assert.deepEqual(await eventsOf(103), ['modified']);
});

test("a step uses the publisher's names, and shows the amount owed and the differences", async () => {
  const template = { _embedded: { 'svc:transaction_template': { total_order: 19, currency_code: 'EUR' } } };
  await publish(version('S-104', template, 'created'));
  await publish(version('S-104', { ...template, ...NEXT, past_due_amount: '19.00' }));
  const [first, second] = await stepsOf('S-104');
  assert.ok(second !== undefined);
  const { id, _links: links, date_created: date, ...properties } = second;
  assert.match(String(date), /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]00$/);
  assert.deepEqual(properties, {
    subscription_id: 'S-104',
    event: 'billing_failure',
    amount: '19.00',
    currency_code: 'EUR',
    before: { next_transaction_date: running.next_transaction_date, past_due_amount: 0 },
    after: { ...NEXT, past_due_amount: '19.00' },
  });
  assert.deepEqual([first?.['subscription_id'], first?.['amount'], first?.['before']], ['S-104', null, null]);
  assert.equal(links['self']?.href, `${app.baseUrl}/stores/${storeId}/subscription_events/${String(id)}`);
  await publish(version(104, {}, 'created'));
  assert.equal((await stepsOf(104))[0]?.['subscription_id'], 104);
});

test('the subscription after the step is embedded, without its own embedded resources and without recursion', async () => {
  const notes = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`note_${n}`, 'x'.repeat(1_000)]));
  const _embedded = { 'svc:customer': { email: 'ada@example.com' } };
  await publish([
    version(105, { _embedded }, 'created'),
    version(106, { ...notes, lines: [[1]], note: 'short' }, 'created'),
  ]);
  const embeddedOf = async (id: number) => {
    const [step] = await stepsOf(id);
    const zoomed = await replyOf(await get(`/subscription_events/${String(step?.['id'])}?zoom=subscription`));
    return zoomed._embedded['svc:subscription'];
  };
  assert.deepEqual(await embeddedOf(105), { id: 105, ...running });
  assert.deepEqual(await embeddedOf(106), { id: 106, ...running, note: 'short' });
});

test('a webhook receives the step, byte for byte as GET and the payload of its event show it', async () => {
  const webhook = {
    name: 'Steps',
    format: 'json',
    encryption_key: 'a key of mine',
    url: receiver.url,
    event_resource: 'subscription_event',
    query: 'zoom=subscription',
  };
  const { _links: hook } = await replyOf(await app.api('POST', `/stores/${storeId}/webhooks`, { body: webhook }));
  await publish([version(107, {}, 'created'), version(107, NEXT)]);
  await receiver.until(2);
  assert.equal((await app.api('DELETE', hook['self']?.href ?? '')).status, 204);
  const steps = await stepsOf(107);
  for (const step of steps) {
    const got = receiver.got.find(({ body }) => (JSON.parse(body.toString()) as Json)['id'] === step['id']);
    assert.equal(got?.headers['service-webhook-event'], 'subscription_event/created');
    const [event] =
      (await replyOf(await get(`/events?resource_type=subscription_event&resource_id=${String(step['id'])}`)))
        ._embedded['svc:events'] ?? [];
    for (const address of [step._links['self']?.href, event?._links['svc:payload']?.href]) {
      assert.equal(await (await get(`${address}?zoom=subscription`)).text(), got?.body.toString());
    }
  }
  assert.deepEqual(
    steps.map(({ event }) => event),
    ['activated', 'billing_success'],
  );
});

test('of fifty concurrent versions each follows another, none is lost and none derives its step twice', async () => {
  await publish(version(108, { n: 0 }, 'created'));
  const requests = Array.from({ length: 50 }, (_, n) => publish(version(108, { n: n + 1 })));
  for (const { status } of await Promise.all(requests)) assert.equal(status, 201);
  const [first, ...rest] = await stepsOf(108);
  assert.deepEqual([first?.['event'], rest.length], ['activated', 50]);
  const of = (step: Reply, side: 'before' | 'after') => (step[side] as { n: number }).n;
  assert.deepEqual(
    rest.map((step) => of(step, 'before')),
    [0, ...rest.slice(0, -1).map((step) => of(step, 'after'))],
  );
  assert.equal(new Set(rest.map((step) => of(step, 'after'))).size, 50);
});

test('a subscription that was erased and is published again begins a new lifecycle', async () => {
  await publish([version(112, {}, 'created'), version(112, { note: 'a' })]);
  const path = `/stores/${storeId}/subscriptions/112`;
  assert.equal((await app.api('DELETE', path, { token: platformToken })).status, 204);
  const before = (await eventsOf(112)).length;
  assert.equal((await publish(version(112, { note: 'b' }))).status, 201);
  assert.deepEqual((await eventsOf(112)).slice(before), ['activated']);
});

test('while steps are derived, publishing one is a 409 that names its place', async () => {
  const step = { event: 'subscription_event/created', resource: { id: 'mine', event: 'activated' } };
  const fieldOf = async (body: unknown) => {
    const response = await publish(body);
    assert.equal(response.status, 409);
    const [fault] = (await replyOf(response))._embedded['svc:errors'] ?? [];
    assert.match(String(fault?.['message']), /subscription_events .*"published"/);
    return fault?.['field'];
  };
  assert.equal(await fieldOf(step), 'event');
  assert.equal(await fieldOf([step]), '0.event');
  assert.equal(await fieldOf([version(109, {}), step]), '1.event');
  assert.deepEqual(await eventsOf(109), []);
});

test('a rejected version does not disturb concurrent publishes of others', async () => {
  const step = { event: 'subscription_event/created', resource: { id: 'mine' } };
  const statuses = await Promise.all(
    Array.from(
      { length: 20 },
      async (_, n) =>
        (await publish(n % 2 === 0 ? version(110, { n }) : [version(110, { n, is_active: false }), step])).status,
    ),
  );
  assert.deepEqual(new Set(statuses), new Set([201, 409]));
  const steps = await eventsOf(110);
  assert.deepEqual([steps[0], new Set(steps.slice(1))], ['activated', new Set(['modified'])]);
  assert.equal(steps.length, 10);
});

test('a store whose steps are published accepts them, and derives none', async () => {
  const body = { name: 'Own', domain: 'own.example.com', email: 'own@example.com', time_zone: 'UTC' };
  const asked = { token: platformToken, body: { ...body, subscription_events: 'published' } };
  const store = Number((await replyOf(await app.api('POST', '/stores', asked)))['id']);
  const step = { event: 'subscription_event/created', resource: { id: 'mine', event: 'activated' } };
  assert.equal((await publish([version(111, {}, 'created'), step], store)).status, 200);
  const list = await app.api('GET', `/stores/${store}/subscription_events`, { token: platformToken });
  const items = (await replyOf(list))._embedded['svc:subscription_events'] ?? [];
  assert.deepEqual(
    items.map(({ id }) => id),
    ['mine'],
  );
  const back = { token: platformToken, body: { subscription_events: 'derived' } };
  assert.equal((await app.api('PATCH', `/stores/${store}`, back)).status, 200);
  assert.equal((await publish(step, store)).status, 409);
});
