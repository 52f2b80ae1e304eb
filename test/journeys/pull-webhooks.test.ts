/** Pull webhooks: deliveries come over a stream to a listener, whose answer completes them. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { Unfetched } from '#delivery/pull/pull-streams.ts';
import { shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { createUnattendedPurge } from '#webhooks/listener-operations.ts';
import { startTestApp } from '../setup/app.ts';
import { listen, type StreamEvent } from '../setup/pull-listener.ts';
import { until } from '../setup/until.ts';
import type { Representation } from '../setup/webhook-api.ts';
import { homeOf, storesOf } from '../setup/suite-map.ts';

const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';
const app = await startTestApp();
const store = `/stores/${app.storeId}`;

async function call(method: string, path: string, body?: object, token?: string) {
  const response = await app.api(method, path, { ...(body && { body }), ...(token && { token }) });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: JSON.parse(text || '{}') as Representation };
}
const faultOf = ({ body }: { body: Representation }) => body._embedded['svc:errors']?.[0]?.['code'];
async function make(changes: object = {}): Promise<string> {
  const plain = { name: 'Laptop', format: 'json', encryption_key: KEY, event_resource: 'transaction', is_held: '1' };
  const made = await call('POST', `${store}/webhooks`, { ...plain, ...changes });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return `/webhooks/${String(made.body['id'])}`;
}
let last = 0;
async function publish(event = 'transaction/created'): Promise<number> {
  const id = (last += 1);
  const { status } = await call(
    'POST',
    `${store}/events`,
    { event, resource: { id, total_order: 12.5 } },
    app.platformToken,
  );
  assert.equal(status, 201);
  return id;
}
const bodyOf = ({ data }: StreamEvent): Buffer => Buffer.from(String(data['body']), 'base64');
const resourceOf = (message: StreamEvent): unknown => (JSON.parse(bodyOf(message).toString()) as { id: number }).id;
const ok = { response_code: 200, duration: 12, response_headers: 'x-shelf: 7', response_body: 'thank you' };
const answer = (message: StreamEvent, body: object = ok, token?: string) =>
  call('POST', String(message.data['answer']), body, token);
const statusesOf = async (path: string) => (await call('GET', `${path}/statuses`)).body._embedded['svc:statuses'] ?? [];

test('a delivery comes over the stream as a url would have received it, and an answer completes it', async (t) => {
  const path = await make();
  const { body: webhook } = await call('GET', path);
  assert.equal(webhook['is_held'], '1');
  assert.equal(webhook._links['svc:listen']?.href, `${app.baseUrl}${path}/stream`);
  const listener = await listen(app, path);
  t.after(listener.hangUp);
  assert.equal(listener.response.headers.get('content-type'), 'text/event-stream');
  const id = await publish();
  const [message] = await listener.deliveries(1);
  assert.ok(message !== undefined);
  assert.equal(message.id, String(message.data['delivery_id']));
  const headers = message.data['headers'] as Record<string, string>;
  new Webhook(KEY).verify(bodyOf(message), headers);
  assert.equal(headers['Service-Webhook-Event'], 'transaction/created');
  assert.deepEqual([message.data['method'], message.data['attempt'], resourceOf(message)], ['POST', 1, id]);
  const resource = await app.api('GET', `${store}/transactions/${id}`);
  assert.equal(await resource.text(), bodyOf(message).toString());
  const [waiting] = await statusesOf(path);
  assert.deepEqual([waiting?.['status'], waiting?.['date_next']], ['pending', null]);
  const first = await answer(message);
  assert.equal(first.status, 200, JSON.stringify(first.body));
  const { outcome, response_code, response_headers, duration } = first.body;
  assert.deepEqual([outcome, response_code, response_headers, duration], ['delivered', 200, 'x-shelf: 7', 12]);
  const again = await answer(message);
  assert.deepEqual([again.status, again.body], [200, first.body]);
  const other = await answer(message, { ...ok, response_code: 500 });
  assert.deepEqual([other.status, faultOf(other)], [409, 'already_answered']);
  const [done] = await statusesOf(path);
  assert.deepEqual([done?.['status'], done?.['attempts']], ['successful', 1]);
});

test('an unanswered delivery comes again with the next stream, and an answered one does not', async (t) => {
  const path = await make();
  const listener = await listen(app, path);
  const ids = [await publish(), await publish(), await publish()];
  const messages = await listener.deliveries(3);
  assert.deepEqual(messages.map(resourceOf), ids);
  await answer(messages[1] as StreamEvent);
  const newer = await listen(app, path);
  t.after(newer.hangUp);
  assert.equal(await listener.ended, 'replaced');
  assert.deepEqual((await newer.deliveries(2)).map(resourceOf), [ids[0], ids[2]]);
});

test('the answer of a listener is final, and does not count towards the health of the webhook', async (t) => {
  const path = await make();
  const listener = await listen(app, path);
  t.after(listener.hangUp);
  for (let n = 0; n < 4; n += 1) await publish();
  const [gone, broken, lookedAt, mistaken] = await listener.deliveries(4);
  assert.ok(gone !== undefined && broken !== undefined && lookedAt !== undefined && mistaken !== undefined);
  const outcomes = [
    await answer(gone, { response_code: 410, duration: 1 }),
    await answer(broken, { response_code: null, duration: 1, outcome: 'unreachable:connect' }),
    await answer(lookedAt, { response_code: null, duration: 0 }),
  ].map(({ body }) => body['outcome']);
  assert.deepEqual(outcomes, ['gone', 'unreachable:connect', 'delivered']);
  const both = await answer(mistaken, { response_code: 200, duration: 1, outcome: 'malformed' });
  assert.deepEqual([both.status, faultOf(both)], [400, 'invalid_value']);
  const statuses = new Map((await statusesOf(path)).map(({ id, status }) => [id, status]));
  assert.deepEqual(
    [gone, broken, lookedAt, mistaken].map(({ data }) => statuses.get(data['delivery_id'])),
    ['failed', 'failed', 'successful', 'pending'],
  );
  const { body: webhook } = await call('GET', path);
  assert.deepEqual([webhook['is_active'], webhook['state']], ['1', 'ok']);
});

test('another app can reach neither the stream nor the answers, and a webhook with a url has neither', async (t) => {
  const path = await make();
  const listener = await listen(app, path);
  t.after(listener.hangUp);
  await publish();
  const [message] = await listener.deliveries(1);
  const stranger = await listen(app, path, { token: app.platformToken });
  assert.equal(stranger.response.status, 404);
  assert.equal((await answer(message as StreamEvent, ok, app.platformToken)).status, 404);
  const plain = await make({ is_held: '0' });
  const refused = await listen(app, plain);
  assert.equal(refused.response.status, 409);
  assert.equal((await listen(app, path, { headers: { Accept: 'text/html' } })).response.status, 406);
  assert.equal((await listen(app, path, { token: 'hal_at_none' })).response.status, 401);
  assert.equal((await app.api('HEAD', `${path}/stream`, { headers: { Accept: '*/*' } })).status, 200);
  assert.equal(listener.events.filter(({ event }) => event === 'goodbye').length, 0);
  const own = await make();
  await app.sql`update webhook set client = null where id = ${Number(own.split('/')[2])}`;
  assert.equal((await listen(app, own)).response.status, 404, 'a webhook of a person belongs to no app');
});

test('a webhook is a pull webhook from its creation or never, and has no url', async () => {
  const path = await make();
  const refusals = [
    await call('PATCH', path, { is_held: '0' }),
    await call('PATCH', path, { url: 'https://example.com/hook' }),
    await call('PATCH', await make({ is_held: '0' }), { is_held: '1' }),
    await call('POST', `${store}/webhooks`, {
      name: 'x',
      format: 'json',
      encryption_key: KEY,
      is_held: '1',
      url: 'https://example.com',
    }),
    await call('POST', `${store}/webhooks`, {
      name: 'x',
      format: 'partner_sitebuilder',
      encryption_key: KEY,
      is_held: '1',
    }),
  ];
  assert.deepEqual(
    refusals.map(({ status, body }) => [status, body._embedded['svc:errors']?.[0]?.['field']]),
    [
      [400, 'is_held'],
      [400, 'url'],
      [400, 'is_held'],
      [400, 'url'],
      [400, 'format'],
    ],
  );
  const { body: read } = await call('GET', path);
  const put = await call('PUT', path, read);
  assert.deepEqual([put.status, put.body['is_held']], [200, '1']);
  const bare = await call('PUT', path, { name: 'y', format: 'json', encryption_key: KEY });
  assert.deepEqual([bare.status, bare.body['is_held']], [200, '1']);
});

test('a sample has the requested event name, and is kept as a sample', async (t) => {
  const path = await make();
  const listener = await listen(app, path);
  t.after(listener.hangUp);
  const held = await call('POST', `${path}/test`, { event: 'transaction/refunded' });
  assert.equal(held.status, 202);
  assert.equal(held.headers.get('location'), `${app.baseUrl}${path}/statuses/${String(held.body['id'])}`);
  const [message] = await listener.deliveries(1);
  assert.ok(message !== undefined);
  const headers = message.data['headers'] as Record<string, string>;
  assert.equal(headers['Service-Webhook-Event'], 'transaction/refunded');
  assert.equal((JSON.parse(bodyOf(message).toString()) as { is_sample?: boolean }).is_sample, true);
  const { body: page } = await call('GET', held.headers.get('location') ?? '');
  const [request] = page._embedded['svc:request'] === undefined ? [] : [page._embedded['svc:request']].flat();
  assert.match(JSON.stringify(request), /transaction\/refunded/);
  assert.equal((await answer(message)).body['event'], 'transaction/test:refunded');
  const { body: events } = await call('GET', `${store}/events?event=transaction/refunded`);
  assert.equal(events['total_items'], '0');
  const other = await call('POST', `${path}/test`, { event: 'customer/created' });
  assert.deepEqual([other.status, faultOf(other)], [400, 'invalid_value']);
});

test('a restart of the server in the middle of a stream loses no delivery, and repeats none that was answered', async (t) => {
  const path = await make();
  const listener = await listen(app, path);
  const ids = [await publish(), await publish()];
  const [first] = await listener.deliveries(2);
  await answer(first as StreamEvent);
  await app.restart();
  assert.equal(await listener.ended, 'stopping');
  ids.push(await publish());
  const next = await listen(app, path);
  t.after(next.hangUp);
  assert.deepEqual((await next.deliveries(2)).map(resourceOf), ids.slice(1));
  assert.equal((await answer(first as StreamEvent)).status, 200);
});

test('of two listeners in two processes the newer one stays', async () => {
  const path = await make();
  const listener = await listen(app, path);
  await publish();
  await listener.deliveries(1);
  const id = Number(path.split('/')[2]);
  const newerRows = async () =>
    (await app.sql`select from webhook where id = ${id} and listened_at > date_created`).length;
  await until(newerRows, (rows) => rows === 1);
  // As another process writes it when a listener connects there.
  await app.sql`update webhook set listened_at = listened_at + interval '1 millisecond' where id = ${id}`;
  await call('PATCH', path, { name: 'Looks after its listener' });
  assert.equal(await listener.ended, 'replaced');
});

test('a pull webhook without a listener for a day is deleted, and its deliveries read as failed', async (t) => {
  const [unattended, used] = [await make(), await make()];
  const listener = await listen(app, used);
  t.after(listener.hangUp);
  await publish();
  const [message] = await listener.deliveries(1);
  const { changelog, announceChanges: announce } = openInternalEvents({ baseUrl: app.baseUrl });
  const { purge } = createUnattendedPurge({
    sql: storesOf(app.sql),
    changelog,
    announce,
    unattendedHours: 24,
  });
  const now = app.clock.now();
  assert.equal(await purge(100, now), 0);
  const id = Number(unattended.split('/')[2]);
  await app.sql`update webhook set listened_at = ${new Date(now.getTime() - 86_400_001)} where id = ${id}`;
  assert.equal(await purge(100, now), 1);
  assert.deepEqual([(await call('GET', unattended)).status, (await call('GET', used)).status], [404, 200]);
  const { body } = await call('GET', `${store}/changelogs?resource_id=${id}&order=id`);
  const [entry] = (body._embedded['svc:changelogs'] ?? []).slice(-1);
  assert.deepEqual([entry?.['action'], entry?.['actor']], ['deleted', 'halcyon']);
  const gone = async () =>
    (await app.sql`select state from delivery_done where webhook_id = ${id}`).map(({ state }) => state);
  const { clock } = app;
  const runtime = { sql: storesOf(app.sql), clock, log: createLog('error') };
  const unfetched = new Unfetched(runtime, { owns: () => true }, { unfetchedDays: 30 });
  unfetched.end(shardOf(id), Number(used.split('/')[2]));
  unfetched.end(shardOf(id), id);
  assert.deepEqual(await until(gone, ({ length }) => length > 0), ['failed']);
  assert.equal((await answer(message as StreamEvent)).status, 200, 'deliveries of other webhooks stay');
});

test('a listener whose webhook is deleted, whose token is revoked or whose app or store is suspended receives goodbye', async (t) => {
  const [path, revoked] = [await make(), await make()];
  const one = await listen(app, path);
  await call('DELETE', path);
  assert.equal(await one.ended, 'deleted');
  const [webhook] = await app.sql<{ client: number }[]>`
    select client from webhook where id = ${Number(revoked.split('/')[2])}`;
  const [grant] = await app.sql<{ id: number }[]>`select id from access_grant where client = ${webhook?.client ?? 0}`;
  const home = homeOf(app.sql);
  const setScope = (scope: string, storeId: number | null) =>
    home`update access_grant set scope = ${scope}, store_id = ${storeId} where id = ${grant?.id ?? 0}`;
  const rows = [
    ['client', webhook?.client, 'store_full_access'],
    ['store', app.storeId, 'store_full_access'],
    ['store', app.storeId, 'user_full_access'],
  ] as const;
  for (const [table, id = 0, scope] of rows) {
    await setScope(scope, scope === 'store_full_access' ? app.storeId : null);
    const suspend = (reason: string | null) =>
      home`update ${home(table)} set suspended_reason = ${reason} where id = ${id}`;
    const two = await listen(app, revoked);
    t.after(two.hangUp);
    await suspend('It leaks data');
    await until(
      async () => two.events.map(({ event }) => event),
      (events) => events.includes('goodbye'),
    );
    assert.equal(await two.ended, 'unauthorized', table);
    await suspend(null);
  }
  await setScope('store_full_access', app.storeId);
  const three = await listen(app, revoked);
  const { status } = await call('DELETE', `/grants/${grant?.id}`, undefined, app.platformToken);
  assert.equal(status, 204);
  assert.equal(await three.ended, 'unauthorized');
});

after(() => app.stop());
