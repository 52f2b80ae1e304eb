/** A test delivery of a sample event: what arrives, what is answered and kept, and what stays unaffected. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { eventsOf, HIDDEN_FROM_APPS, resourceTypes } from '#catalog/catalog.ts';
import type { Representation } from '../setup/webhook-api.ts';
import { startTestApp } from '../setup/app.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const KEY = 'whsec_VGhlIHF1aWNrIGJyb3duIGZveA==';
/** This process has no worker. */
const app = await startTestApp({ roles: ['serve'] });
await app.restart({ PLATFORM_STORE: String(app.storeId) });
const store = `/stores/${app.storeId}`;

async function read(path: string, method = 'GET', body?: object, token = app.token) {
  const response = await app.api(method, path, { ...(body && { body }), token });
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, body: JSON.parse(text || '{}') as Representation };
}
async function create(url: string | null, changes: object = {}, token = app.token): Promise<string> {
  const body = { name: 'Orders', format: 'json', encryption_key: KEY, url, event_resource: 'transaction', ...changes };
  const made = await read(`${store}/webhooks`, 'POST', body, token);
  assert.equal(made.status, 201, made.text);
  return `/webhooks/${String(made.body['id'])}`;
}
const trial = (at: string, token?: string) => read(`${at}/test`, 'POST', undefined, token);
const itemsOf = async (path: string, rel: string) => (await read(path)).body._embedded[`svc:${rel}`] ?? [];
const faultOf = ({ body }: { body: Representation }) => body._embedded['svc:errors']?.[0]?.['code'];

test('a sample is sent like every delivery, by a process without a worker, and is shown in all lists of deliveries', async (t) => {
  const receiver = await startReceiver(t);
  receiver.answer((_got, response) => void response.writeHead(201, { 'X-Shelf': '7' }).end('thank you'));
  const at = await create(`${receiver.url}/hook`, { query: 'zoom=items&fields=id,is_sample,total_order' });
  const reply = await trial(at);
  assert.equal(reply.status, 200, reply.text);
  const { event, outcome, response_code, response_body, attempt, resource_id } = reply.body;
  assert.deepEqual(
    [event, outcome, response_code, response_body, attempt, resource_id],
    ['transaction/test', 'delivered', 201, 'thank you', 1, '999999999'],
  );
  assert.match(String(reply.body['response_headers']), /x-shelf: 7/i);
  const [got, ...more] = receiver.got;
  assert.ok(got !== undefined && more.length === 0);
  new Webhook(KEY).verify(got.body, got.headers as Record<string, string>);
  const sent = JSON.parse(got.body.toString()) as Representation;
  assert.deepEqual([sent['id'], sent['is_sample'], sent['status']], [999_999_999, true, undefined]);
  assert.equal(sent._embedded['svc:items']?.length, 1);
  const said = ['service-webhook-event', 'service-webhook-attempt', 'service-webhook-resource-version'];
  assert.deepEqual(
    said.map((name) => got.headers[name]),
    ['transaction/test', '1', '0'],
  );
  const about = reply.body._links['svc:event']?.href ?? '';
  const logs = await itemsOf(`${at}/logs`, 'logs');
  assert.deepEqual(logs, [reply.body]);
  const [status] = await itemsOf(`${at}/statuses?event=transaction/test`, 'statuses');
  assert.deepEqual([status?.['status'], status?.['attempts']], ['successful', 1]);
  assert.equal((await itemsOf(`${about}/statuses`, 'statuses')).length, 1);
  const payload = await read(`${about}/payload?zoom=items&fields=id,is_sample,total_order`);
  assert.equal(payload.text, got.body.toString());
  const [listed] = await itemsOf(`${store}/events?event=transaction/test`, 'events');
  assert.deepEqual([listed?.['event'], listed?.['resource_version']], ['transaction/test', 0]);
  for (const document of [reply.body, listed, status]) {
    for (const { href } of Object.values(document?._links ?? {})) {
      if (typeof href === 'string' && !href.includes('{rel}')) assert.equal((await read(href)).status, 200, href);
    }
  }
});

test('two samples have two webhook-ids, and create no version of a resource', async (t) => {
  const receiver = await startReceiver(t);
  const at = await create(receiver.url);
  await trial(at);
  await trial(at);
  assert.equal(new Set(receiver.got.map(({ headers }) => headers['webhook-id'])).size, 2);
  assert.equal((await read(`${store}/transactions/999999999`)).status, 404);
  assert.equal((await read(`${store}/transactions`)).body['total_items'], '0');
});

test('each outcome at the endpoint is reported, and counts towards no health', async (t) => {
  const receiver = await startReceiver(t);
  const answers: [path: string, outcome: string][] = [
    ['/500', 'refused'],
    ['/410', 'gone'],
    ['/429', 'refused'],
    ['/reset', 'unreachable:reset'],
  ];
  receiver.answer(({ path }, response) => {
    if (path === '/reset') response.destroy();
    else response.writeHead(Number(path.slice(1)), { 'Retry-After': '600' }).end('no');
  });
  for (const [path, outcome] of answers) {
    const at = await create(receiver.url + path);
    for (let n = 0; n < 13; n += 1) assert.equal((await trial(at)).body['outcome'], outcome);
    const { body } = await read(at);
    assert.deepEqual([body['state'], body['is_active']], ['ok', '1'], path);
  }
  const [left] = await app.sql`
    select (select count(*) from webhook_state) as states, (select count(*) from delivery) as pending`;
  assert.deepEqual(left, { states: 0, pending: 0 }, 'and no retry is scheduled');
});

test('the address guard applies to samples', async () => {
  const at = await create('https://example.com');
  await app.sql`update webhook set url = 'http://169.254.169.254/latest' where id = ${Number(at.slice('/webhooks/'.length))}`;
  const { status, body } = await trial(at);
  assert.deepEqual([status, body['outcome'], body['response_code']], [200, 'blocked', null]);
});

test('a webhook that is disabled or paused can be tested all the same', async (t) => {
  const receiver = await startReceiver(t);
  const at = await create(receiver.url, { is_active: '0' });
  assert.equal((await trial(at)).body['outcome'], 'delivered');
  const id = Number(at.slice('/webhooks/'.length));
  await app.api('PATCH', at, { body: { is_active: '1' } });
  await app.sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, paused_until)
    select shard, id, epoch, 0, now() + interval '1 hour' from webhook where id = ${id}`;
  assert.equal((await trial(at)).body['outcome'], 'delivered');
});

test('no test begins once the deletion of its webhook is committed', async (t) => {
  const receiver = await startReceiver(t);
  const at = await create(receiver.url);
  const reply = await app.sql.begin(async (tx) => {
    await tx`delete from webhook where id = ${Number(at.split('/').at(-1))}`;
    const asked = trial(at);
    await until(
      () => waitingForLocks(app.sql),
      (count) => count === 1,
    );
    return { asked };
  });
  assert.equal((await reply.asked).status, 404);
  assert.equal(receiver.got.length, 0);
});

test('a webhook that could be sent nothing is rejected with what is missing', async () => {
  for (const [at, code] of [
    [await create(null), 'no_url'],
    [await create('https://example.com', { event_resource: null }), 'no_events'],
  ] as const) {
    const reply = await trial(at);
    assert.deepEqual([reply.status, faultOf(reply)], [409, code]);
  }
  assert.equal((await trial('/webhooks/256')).status, 404);
});

test('every resource has a sample, in every format, that has the form of a real one', async (t) => {
  const receiver = await startReceiver(t);
  for (const type of resourceTypes()) {
    for (const format of ['json', 'partner_automation']) {
      // An app cannot subscribe to the events of apps and for the operator.
      const token = HIDDEN_FROM_APPS.includes(type) ? app.platformToken : app.token;
      const at = await create(receiver.url, { event_resource: type, format }, token);
      assert.equal((await trial(at, token)).body['outcome'], 'delivered', type);
      const got = receiver.got.at(-1);
      assert.ok(got !== undefined);
      const { body, headers } = got;
      const sent = JSON.parse(body.toString()) as Representation;
      assert.ok(Number.isSafeInteger(sent['id']) && sent['is_sample'] === true, `${type} as ${format}`);
      assert.equal(headers['service-webhook-event'], `${type}/test`);
      assert.ok(!eventsOf(type).includes(`${type}/test`));
    }
  }
});

test('one webhook has one test at a time, a store two, a process eight, and a stopping process rejects tests', async (t) => {
  const receiver = await startReceiver(t);
  const held: (() => void)[] = [];
  receiver.answer((_got, response) => void held.push(() => response.end()));
  const own = await startTestApp({ roles: ['serve'] });
  const newStore = async (n: number) => {
    const body = { name: `Store ${n}`, domain: `s${n}.example.com`, email: 'owner@example.com', time_zone: 'UTC' };
    const made = await own.api('POST', '/stores', { token: own.platformToken, body });
    return String(((await made.json()) as Representation)['id']);
  };
  const hook = async (storeId: string) => {
    const body = { name: 'x', format: 'json', encryption_key: KEY, url: receiver.url, event_resource: 'customer' };
    const made = await own.api('POST', `/stores/${storeId}/webhooks`, { token: own.platformToken, body });
    return `/webhooks/${String(((await made.json()) as Representation)['id'])}/test`;
  };
  const hooks: string[] = [];
  for (let n = 0; n < 4; n += 1) {
    const storeId = await newStore(n);
    hooks.push(await hook(storeId), await hook(storeId));
    if (n === 3) hooks.push(await hook(storeId), await hook(await newStore(4)));
  }
  const ask = (at: string) => own.api('POST', at, { token: own.platformToken });
  const [first = '', third = '', last = ''] = [hooks[0], hooks[8], hooks[9]];
  const waiting = hooks.slice(6, 8).map(ask);
  await receiver.until(2);
  const refused = ask(third);
  await Promise.race([refused, receiver.until(3)]);
  assert.equal(receiver.got.length, 2, 'a third test of the store is not sent');
  const ofStore = await refused;
  waiting.push(...hooks.slice(0, 6).map(ask));
  await receiver.until(8);
  const again = await ask(first);
  const full = await ask(last);
  assert.deepEqual(
    [ofStore, again, full].map(({ status, headers }) => [status, headers.get('retry-after')]),
    [
      [429, '5'],
      [429, '5'],
      [503, '5'],
    ],
  );
  assert.match(await again.text(), /A test of this webhook is running/);
  held[0]?.();
  assert.equal((await Promise.any(waiting)).status, 200);
  const retried = ask(last);
  await receiver.until(9);
  const stopped = own.stop();
  const statuses = (await Promise.all([...waiting, retried])).map(({ status }) => status);
  await stopped;
  assert.deepEqual(
    statuses.toSorted((one, other) => one - other),
    [200, ...Array.from({ length: 8 }, () => 503)],
  );
});
