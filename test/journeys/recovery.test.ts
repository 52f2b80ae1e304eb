/** A recovery as its user sees it: requested, watched, rejected, cancelled; and the deliveries that arrive. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const receiver = await startReceiver({ after });
const app = await startTestApp();
const { storeId, api, clock } = app;

type Answer = { status: number; location: string; body: Record<string, unknown>; text: string };
async function ask(method: string, path: string, options: Parameters<typeof api>[2] = {}): Promise<Answer> {
  const response = await api(method, path, options);
  const text = await response.text();
  const body = JSON.parse(text === '' ? '{}' : text) as Record<string, unknown>;
  return { status: response.status, location: response.headers.get('location') ?? '', body, text };
}
async function addWebhook(path: string, more: Record<string, unknown> = {}): Promise<string> {
  const url = `${receiver.url}${path}`;
  const hook = { name: 'Orders', format: 'json', encryption_key: 'a key', url, event_resource: 'transaction', ...more };
  return (await ask('POST', `/stores/${storeId}/webhooks`, { body: hook })).location;
}
let resource = 0;
function publish(): Promise<Answer> {
  const body = { event: 'transaction/created', resource: { id: (resource += 1), total_order: 5 } };
  return ask('POST', `/stores/${storeId}/events`, { token: app.platformToken, body });
}
const change = (webhook: string, body: Record<string, unknown>) => ask('PATCH', webhook, { body });
const hourAgo = () => new Date(clock.now().getTime() - 3_600_000).toISOString();
const recover = (webhook: string, since = hourAgo(), headers: Record<string, string> = {}) =>
  ask('POST', `${webhook}/recover`, { body: { since }, headers });
const ended = (location: string) =>
  until(
    () => ask('GET', location),
    ({ body }) => body['date_ended'] !== null,
  );
const gotAt = (path: string) => receiver.got.filter((got) => got.path === path);
const linksOf = (body: Answer['body']) => body['_links'] as Record<string, unknown>;
const faults = ({ body }: Answer) =>
  (body as { _embedded: { 'svc:errors': { code: string; message: string }[] } })._embedded['svc:errors'];

test('missed events arrive under their former webhook-id, and delivered ones do not come again', async () => {
  const webhook = await addWebhook('/missed');
  receiver.answer(({ headers }, response) => {
    const isRefused = headers['webhook-id'] !== undefined && refused.has(String(headers['service-webhook-event']));
    response.writeHead(isRefused ? 410 : 204).end();
  });
  const refused = new Set<string>();
  await publish();
  await until(
    async () => gotAt('/missed').length,
    (count) => count === 1,
  );
  // 410 disables the webhook, and its delivery has failed.
  refused.add('transaction/created');
  await publish();
  await until(
    () => ask('GET', webhook),
    ({ body }) => body['is_active'] === '0',
  );
  refused.clear();
  await publish();
  assert.equal((await recover(webhook)).status, 409);
  await change(webhook, { is_active: '1' });
  const asked = await recover(webhook);
  assert.equal(asked.status, 202);
  assert.equal(asked.body['id'], Number(asked.location.split('/').at(-1)));
  const { body } = await ended(asked.location);
  assert.deepEqual([body['state'], body['events_recovered']], ['finished', 2]);
  await until(
    async () => gotAt('/missed').length,
    (count) => count === 4,
  );
  const [arrived, failed, again, meanwhile] = gotAt('/missed').map(({ headers }) => String(headers['webhook-id']));
  assert.ok([again, meanwhile].includes(failed), 'the failed delivery keeps its id');
  assert.ok(![again, meanwhile].includes(arrived));
  assert.equal(new Set([arrived, again, meanwhile]).size, 3);
  assert.deepEqual((await ask('GET', `${webhook}/statuses?status=successful`)).body['total_items'], '3');
});

test('a start that is malformed, in the future or past retention is rejected with the possible range', async () => {
  const webhook = await addWebhook('/idle');
  const month = 31 * 86_400_000;
  const { status, body } = await ask('POST', `${webhook}/recover`, { body: {} });
  assert.deepEqual([status, faults({ body } as Answer).map(({ code }) => code)], [400, ['required']]);
  const cases: [string, RegExp][] = [
    ['yesterday', /must be a date such as 2026-11-20/],
    [new Date(clock.now().getTime() + 60_000).toISOString(), /must not be in the future: now is \d{4}-/],
    [new Date(clock.now().getTime() - month).toISOString(), /before \d{4}-.* 30 days/],
  ];
  for (const [since, message] of cases) {
    const refusal = await recover(webhook, since);
    assert.equal(refusal.status, 400, since);
    assert.match(faults(refusal)[0]?.message ?? '', message);
  }
});

test('a webhook that could not be sent anything is rejected, with what to change', async () => {
  const cases: [Record<string, unknown>, string, RegExp][] = [
    [{ is_active: '0' }, 'inactive', /set is_active to "1" first/],
    [{ url: null }, 'no_url', /set url/],
    [{ event_resource: null }, 'no_events', /set event_resource/],
  ];
  for (const [more, code, message] of cases) {
    const refusal = await recover(await addWebhook('/idle', more));
    assert.deepEqual([refusal.status, faults(refusal)[0]?.code], [409, code]);
    assert.match(faults(refusal)[0]?.message ?? '', message);
  }
});

test('one recovery at a time: a second request gets the address of the first, which can be cancelled; a repeated request returns the same one', async () => {
  const webhook = await addWebhook('/cancelled');
  // Waits for a transaction that does not end, so it stays open.
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const { promise: isOpen, resolve: opened } = Promise.withResolvers<void>();
  const held = app.sql.begin(async (tx) => {
    await tx`set application_name = 'halcyon held'`;
    opened();
    await over;
    await tx`set application_name = 'test'`;
  });
  await isOpen;
  const key = { 'Idempotency-Key': 'once' };
  const since = hourAgo();
  const first = await recover(webhook, since, key);
  const again = await recover(webhook, since, key);
  assert.deepEqual([first.status, again.status, again.location], [202, 202, first.location]);
  const second = await recover(webhook);
  assert.deepEqual([second.status, faults(second)[0]?.code, second.location], [409, 'already_open', first.location]);

  const cancel = (recovery: string) => ask('POST', `${recovery}/cancel`);
  assert.deepEqual((await cancel(first.location)).body['state'], 'cancelled');
  const { status, body } = await ask('GET', first.location);
  assert.deepEqual([status, body['state'], 'svc:cancel' in linksOf(body)], [200, 'cancelled', false]);
  assert.equal((await cancel(first.location)).status, 200);
  const third = await recover(webhook);
  assert.deepEqual([third.status, 'svc:cancel' in linksOf(third.body)], [202, true]);
  end();
  await held;
  assert.equal((await ended(third.location)).body['state'], 'finished');
  const refusal = await cancel(third.location);
  assert.deepEqual([refusal.status, faults(refusal)[0]?.code], [409, 'ended']);

  const list = await ask('GET', `${webhook}/recoveries`);
  const items = (list.body as { _embedded: { 'svc:recoveries': { state: string }[] } })._embedded['svc:recoveries'];
  assert.deepEqual(
    items.map(({ state }) => state),
    ['finished', 'cancelled'],
  );
  assert.equal((await ask('GET', `${webhook}/recoveries?state=cancelled`)).body['total_items'], '1');
  const elsewhere = await addWebhook('/idle');
  assert.equal((await ask('GET', `${elsewhere}/recoveries/${third.location.split('/').at(-1)}`)).status, 404);
});
