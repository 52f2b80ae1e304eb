/** A store's resources are sent to its webhooks again: the latest version, as it is read, to the selected webhooks only. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announceErased } from '#delivery/announce.ts';
import { blankAnswers } from '#delivery/record/record-sql.ts';
import { createErasurePurges } from '#events/erase/erasure.ts';
import { createLog } from '#core/log.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver } from '../setup/receiver.ts';
import { openSecondStore } from '../setup/second-store.ts';
import { until } from '../setup/until.ts';

const app = await startTestApp();
const receiver = await startReceiver();
const { api, sql, clock, storeId, platformToken } = app;
const at = `/stores/${storeId}`;
const QUERY = 'zoom=items&fields=id,total_order';
const STEPS = { is_active: true, frequency: '1m', start_date: '2026-01-01' };

type Json = Record<string, unknown>;
type Answer = { status: number; location: string | null; json: Json };
type Fault = { code: string; field?: string; message: string };

async function ask(
  method: string,
  path: string,
  body?: unknown,
  more: Parameters<typeof api>[2] = {},
): Promise<Answer> {
  const response = await api(method, path, { ...(body !== undefined && { body }), ...more });
  const text = await response.text();
  const json = (text === '' ? {} : JSON.parse(text)) as Json;
  return { status: response.status, location: response.headers.get('location'), json };
}
const faultsOf = ({ json }: Answer): Fault[] => (json['_embedded'] as Record<string, Fault[]>)['svc:errors'] ?? [];
async function publish(event: string, resource: Json): Promise<number> {
  const { status, json } = await ask('POST', `${at}/events`, { event, resource }, { token: platformToken });
  assert.equal(status, 201);
  return json['id'] as number;
}
async function addWebhook(path: string, more: Json = {}): Promise<number> {
  const body = { name: path, format: 'json', encryption_key: 'a key', url: receiver.url + path, ...more };
  return (await ask('POST', `${at}/webhooks`, { event_resource: 'transaction', ...body })).json['id'] as number;
}
const resend = (id: string, body: unknown = {}, more: Parameters<typeof api>[2] = {}): Promise<Answer> =>
  ask('POST', `${at}/transactions/${id}/send_webhooks`, body, more);
const gotAt = (path: string, isRefeed?: boolean) =>
  receiver.got.filter(
    (got) =>
      got.path === path && (isRefeed === undefined || got.headers['service-webhook-refeed'] === String(isRefeed)),
  );
async function written(): Promise<number[]> {
  const [row] = await sql<{ events: number; deliveries: number }[]>`
    select (select count(*) from event)::int as events,
      ((select count(*) from delivery) + (select count(*) from delivery_done))::int as deliveries`;
  return [row?.events ?? 0, row?.deliveries ?? 0];
}

const all = await addWebhook('/all', { query: QUERY });
const captured = await addWebhook('/captured', { events: ['transaction/captured'] });
const off = await addWebhook('/off', { is_active: '0' });
const nowhere = await addWebhook('/nowhere', { url: null });
const customers = await addWebhook('/customers', { event_resource: 'customer' });
const idle = await addWebhook('/idle', { event_resource: null });
const order = (total: number) => ({
  id: 'A 1',
  total_order: total,
  note: 'x',
  _embedded: { items: [{ id: 1, name: 'Shirt' }] },
});
await publish('transaction/created', order(1));
await publish('transaction/modified', order(2));
await until(
  async () => gotAt('/all').length,
  (count) => count === 2,
);

test('a resource is sent again as it is read, as an event of its own, to the named webhook only', async () => {
  const before = await api('GET', `${at}/transactions/A%201`);
  const made = await resend('A%201', { webhooks: [all] });
  assert.equal(made.status, 202);
  const {
    id,
    event,
    resource_version: version,
    _links: links,
  } = made.json as Json & { _links: Record<string, { href: string }> };
  assert.deepEqual(
    [event, version, made.location],
    ['transaction/refeed', 2, `${app.baseUrl}${at}/events/${id as number}`],
  );
  const [sent] = await until(
    async () => gotAt('/all', true),
    (got) => got.length === 1,
  );
  const read = await api('GET', `${at}/transactions/A%201?${QUERY}`);
  assert.equal(sent?.body.toString(), await read.text());
  const named = (name: string) => sent?.headers[`service-webhook-${name}`];
  assert.deepEqual([named('event'), named('resource-version'), named('attempt')], ['transaction/refeed', '2', '1']);
  const ids = gotAt('/all').map(({ headers }) => headers['webhook-id']);
  assert.equal(new Set(ids).size, 3, 'a receiver that drops known ids accepts it');
  const statuses = await until(
    async () => (await ask('GET', links['svc:statuses']?.href ?? '')).json,
    ({ _embedded: found }) => (found as Record<string, Json[]>)['svc:statuses']?.[0]?.['status'] === 'successful',
  );
  assert.equal(statuses['total_items'], '1');
  const after = await api('GET', `${at}/transactions/A%201`);
  assert.equal(after.headers.get('etag'), before.headers.get('etag'), 'it creates no version');
  assert.deepEqual([gotAt('/captured').length, gotAt('/off').length], [0, 0]);
});

test('without a name it goes to all webhooks for such resources, which an event narrows', async () => {
  const sentTo = async (body: unknown, more: Parameters<typeof api>[2] = {}): Promise<number[]> => {
    const { status, json } = await resend('A%201', body, more);
    assert.equal(status, 202, JSON.stringify(json));
    const rows = await sql<{ id: number }[]>`
      select webhook_id as id from delivery where event_id = ${json['id'] as number}
      union all select webhook_id from delivery_done where event_id = ${json['id'] as number} order by 1`;
    return rows.map((row) => row.id);
  };
  const both = [all, captured].toSorted((a, b) => a - b);
  assert.deepEqual(await sentTo({}), both);
  assert.deepEqual(await sentTo({ event: 'transaction/refeed' }), both);
  assert.deepEqual(await sentTo({ event: 'transaction/captured' }), both);
  assert.deepEqual(await sentTo({ event: 'transaction/modified' }), [all]);
  assert.deepEqual(await sentTo({ refeed_hooks: [captured, captured], event: 'transaction/captured' }), [captured]);
  assert.deepEqual(await sentTo({ webhooks: [all] }, { token: platformToken }), [all]);
  await until(
    async () => gotAt('/captured', true).length,
    (count) => count === 5 - 1,
  );
});

test('a repeated request under its key sends nothing and gets the first answer', async () => {
  const headers = { 'Idempotency-Key': 'again' };
  const first = await resend('A%201', { webhooks: [captured] }, { headers });
  const before = await written();
  const second = await resend('A%201', { webhooks: [captured] }, { headers });
  assert.deepEqual(second, first);
  assert.deepEqual(await written(), before);
  assert.equal((await resend('A%201', {}, { headers })).status, 422);
});

test('each webhook that cannot be sent to is named with its reason, and then nothing is sent', async () => {
  const before = await written();
  const refused = await resend('A%201', {
    refeed_hooks: [all, off, nowhere, customers, idle, captured, 7],
    event: 'transaction/voided',
  });
  assert.equal(refused.status, 400);
  const reasons: [id: number, reason: string][] = [
    [off, 'is disabled'],
    [nowhere, 'url'],
    [customers, 'customer.* transaction$'],
    [idle, 'events'],
    [captured, 'transaction/voided'],
    [7, 'not a webhook'],
  ];
  const faults = faultsOf(refused);
  assert.deepEqual(
    faults.map(({ field }) => field),
    reasons.map(() => 'refeed_hooks'),
  );
  for (const [n, [id, reason]] of reasons.entries())
    assert.match(faults[n]?.message ?? '', new RegExp(`^refeed_hooks: ${id} .*${reason}`));
  for (const [body, field] of [
    [{ webhooks: [] }, 'webhooks'],
    [{ webhooks: [all], refeed_hooks: [all] }, 'refeed_hooks'],
    [{ event: 'customer/created' }, 'event'],
    [{ webhooks: Array.from({ length: 101 }, (_, n) => n + 1) }, 'webhooks'],
    [{ webhooks: ['x'] }, 'webhooks.0'],
    [{ hooks: [all] }, 'hooks'],
  ] as const) {
    const answer = await resend('A%201', body);
    assert.deepEqual([answer.status, faultsOf(answer)[0]?.field], [400, field]);
  }
  await publish('customer/created', { id: 'c0' });
  const unmatched = await ask('POST', `${at}/customers/c0/send_webhooks`, {
    event: 'customer/modified',
    webhooks: [customers],
  });
  assert.equal(unmatched.status, 202);
  await ask('PATCH', `/webhooks/${customers}`, { is_active: '0' });
  const none = await ask('POST', `${at}/customers/c0/send_webhooks`, {});
  assert.deepEqual([none.status, faultsOf(none)[0]?.code], [409, 'nothing_to_send']);
  const [events, deliveries] = await written();
  // The customer's own event and its resend, and the entry of the change of the webhook.
  assert.deepEqual([events, deliveries], [(before[0] ?? 0) + 3, (before[1] ?? 0) + 2]);
});

test('resources of another store and unknown ones are not sent', async () => {
  const other = await openSecondStore(app);
  for (const [path, more] of [
    [`${at}/transactions/A%201/send_webhooks`, { token: other.token }],
    [`${at}/transactions/unknown/send_webhooks`, {}],
    [`${at}/nothing/A%201/send_webhooks`, {}],
  ] as const) {
    const { status } = await ask('POST', path, {}, more);
    assert.equal(status, 404, path);
  }
});

test('a resend that races a disable of its webhook is sent before it or not at all', async () => {
  const racing = await addWebhook('/racing', { events: ['transaction/voided'] });
  receiver.answer((_got, response) => void response.writeHead(500).end());
  const { json } = await resend('A%201', { webhooks: [racing] });
  await until(
    async () => gotAt('/racing').length,
    (count) => count === 1,
  );
  receiver.answer((_got, response) => void response.writeHead(204).end());
  await ask('PATCH', `/webhooks/${racing}`, { is_active: '0' });
  const { _embedded: found } = (await ask('GET', `${at}/events/${json['id'] as number}/statuses`)).json;
  assert.equal((found as Record<string, Json[]>)['svc:statuses']?.[0]?.['status'], 'failed');
  clock.advance(600_000);
  const left = () => sql`select from delivery where webhook_id = ${racing}`;
  await until(left, (rows) => rows.length === 0);
  assert.equal(gotAt('/racing').length, 1);
});

test('an erasure covers resends as well', async () => {
  const carried = async (text: string): Promise<number> => {
    const [row] = await sql<{ n: number }[]>`
      select ((select count(*) from event where body like ${`%${text}%`})
        + (select count(*) from resource where body like ${`%${text}%`}))::int as n`;
    return row?.n ?? -1;
  };
  await publish('transaction/created', { id: 'gone', email: 'eve@example.com' });
  await resend('gone');
  await resend('gone');
  assert.equal(await carried('eve@'), 4);
  assert.equal((await ask('DELETE', `${at}/transactions/gone`, undefined, { token: platformToken })).status, 204);
  assert.equal(await carried('eve@'), 0);
  assert.equal((await resend('gone')).status, 404);

  await addWebhook('/steps', { event_resource: 'subscription_event' });
  await publish('subscription/created', { id: 's1', ...STEPS, note: 'bob@example.com' });
  const [step] = await sql<{ id: string }[]>`select id from resource where type = 'subscription_event'`;
  assert.equal((await ask('POST', `${at}/subscription_events/${step?.id}/send_webhooks`, {})).status, 202);
  assert.equal((await ask('DELETE', `${at}/subscriptions/s1`, undefined, { token: platformToken })).status, 204);
  const kept = await sql`select from event where resource_type like 'subscription%' and body <> ''`;
  assert.equal(kept.length, 0);
});

test('copies of an erased customer are erased from later resends, and stay in later publishes', async () => {
  const [, copyPurge] = createErasurePurges({
    sql,
    log: createLog('silent'),
    caches: { announce: announceErased, forget: () => {} },
    blankAnswers,
  });
  const withCopy = (id: string) => ({ id, _embedded: { customer: { id: 'c9', email: 'ada@example.com' } } });
  await publish('customer/created', { id: 'c9' });
  await publish('transaction/created', withCopy('old'));
  await ask('DELETE', `${at}/customers/c9`, undefined, { token: platformToken });
  clock.advance(60_000);
  await publish('transaction/created', withCopy('new'));
  for (const id of ['old', 'new', 'old']) assert.equal((await resend(id)).status, 202);
  while ((await copyPurge?.purge(100, clock.now())) === 100);
  const left = await sql<{ id: string; action: string }[]>`
    select resource_id as id, action from event where body like '%ada@%' order by 1, 2`;
  assert.deepEqual(
    left.map(({ id, action }) => `${id} ${action}`),
    ['new created', 'new refeed'],
  );
});
