/** The events of stores that an app declares once: each store that lets it in with a scope for them sends them to the app. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LOCKS } from '#db/advisory-lock.ts';
import { verifyDelivery } from '#receiver';
import { createBrowser } from '../security/oauth-server.ts';
import { saveApp } from '../security/page-forms.ts';
import { HTML } from '../setup/form-filler.ts';
import { startTestApp } from '../setup/app.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';

type Json = Record<string, unknown>;

const app = await startTestApp();
const receiver = await startReceiver();
const { sql, storeId, userId, clock, platformToken: token } = app;

async function api(method: string, path: string, body?: unknown) {
  const response = await app.api(method, path, { token, ...(body !== undefined && { body }) });
  const text = await response.text();
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Json };
}

const REDIRECT = 'https://gadget.example.com/callback';
let clients = 0;

/** Creates an app with access to the store. */
async function install(settings: Json) {
  const path = `/app-${(clients += 1)}`;
  const made = await api('POST', '/clients', {
    name: `Gadget ${clients}`,
    redirect_uris: [REDIRECT],
    owner: userId,
    store: storeId,
    webhook_url: receiver.url + path,
    ...settings,
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  return { path, client: `/clients/${String(made.body['client_id'])}`, key: String(made.body['webhook_key']) };
}

let ids = 0;
const publish = async (event: string, resource: Json = {}): Promise<number> => {
  const id = (ids += 1);
  const { status, body } = await api('POST', `/stores/${storeId}/events`, { event, resource: { id, ...resource } });
  assert.equal(status, 201, JSON.stringify(body));
  return id;
};

const eventOf = ({ headers }: Got) => String(headers['service-webhook-event']);
/** Returns the events of the store that have arrived at a path, without those of the app, when there are as many. */
const arrived = async (path: string, count: number): Promise<Got[]> =>
  until(
    async () => receiver.got.filter((got) => got.path === path && !eventOf(got).startsWith('app/')),
    ({ length }) => length >= count,
  );
const idsIn = async (path: string, count: number): Promise<unknown[]> =>
  (await arrived(path, count)).map(({ body }) => (JSON.parse(body.toString()) as Json)['id']);

/** Waits until all that was published before has been sent: a webhook of the store itself gets each event, too. */
const probe = `/probe`;
const hook = { name: 'Probe', format: 'json', encryption_key: 'a key of mine', url: receiver.url + probe };
for (const event_resource of ['transaction', 'customer'])
  assert.equal((await api('POST', `/stores/${storeId}/webhooks`, { ...hook, event_resource })).status, 201);
const settled = async (): Promise<void> => {
  await until(
    async () => (await sql`select from delivery where due_at <> 'infinity'`).length,
    (pending) => pending === 0,
  );
};

test('each event that the app declares arrives with its query and filter, signed with the key of the app', async () => {
  const { path, key } = await install({
    scopes: ['transaction:read', 'customer:read'],
    webhook_events: ['transaction/created', 'customer/created'],
    webhook_query: 'fields=id,total_order',
    webhook_filter: 'total_order:greaterthan=100',
  });
  await publish('transaction/created', { total_order: 99, currency_code: 'EUR' });
  await publish('transaction/modified', { total_order: 101 });
  const id = await publish('transaction/created', { total_order: 101, currency_code: 'EUR' });
  const customer = await publish('customer/created', { total_order: 200 });
  await settled();
  const got = await arrived(path, 2);
  assert.equal(got.length, 2);
  const bodies: Json[] = [];
  for (const { headers, body } of got)
    bodies.push((await verifyDelivery({ headers, body, keys: [key], now: () => clock.now() })).json() as Json);
  const sent = bodies.map((body) => Object.fromEntries(Object.entries(body).filter(([name]) => !name.startsWith('_'))));
  assert.deepEqual(
    sent.toSorted((a, b) => Number(a['id']) - Number(b['id'])),
    [
      { id, total_order: 101 },
      { id: customer, total_order: 200 },
    ],
  );
});

test('the webhooks of a store follow a change of the events, the filter, the query and the url', async () => {
  const { path, client } = await install({ scopes: ['store_read'], webhook_events: ['transaction/created'] });
  const first = await publish('transaction/created');
  assert.deepEqual(await idsIn(path, 1), [first]);
  const change = async (body: Json) => assert.equal((await api('PATCH', client, body)).status, 200);

  await change({ webhook_events: ['customer/created', 'transaction/modified'] });
  await publish('transaction/created');
  const second = [await publish('transaction/modified'), await publish('customer/created')];
  assert.deepEqual(new Set((await idsIn(path, 3)).slice(1)), new Set(second));

  await change({ webhook_events: ['customer/created'], webhook_filter: 'locale=de', webhook_query: 'fields=id' });
  await publish('transaction/modified');
  await publish('customer/created', { locale: 'fr' });
  const third = await publish('customer/created', { locale: 'de' });
  await settled();
  const got = (await arrived(path, 4)).slice(3).map(({ body }) => JSON.parse(body.toString()) as Json);
  assert.deepEqual(
    got.map(({ id, locale }) => [id, locale]),
    [[third, undefined]],
  );

  await change({ webhook_url: `${receiver.url}${path}/moved`, webhook_filter: null });
  const fourth = await publish('customer/created', { locale: 'fr' });
  assert.deepEqual(await idsIn(`${path}/moved`, 1), [fourth]);

  await change({ webhook_url: null, webhook_events: [], webhook_query: null });
  await publish('customer/created');
  await settled();
  assert.deepEqual([(await arrived(path, 4)).length, (await arrived(`${path}/moved`, 1)).length], [4, 1]);
  const { body } = await api('GET', client);
  assert.deepEqual([body['webhook_url'], body['webhook_events'], body['webhook_stores_total']], [null, [], null]);
});

test('a webhook that was disabled because of its failures is enabled by a change of what the app declares', async () => {
  const { path, client } = await install({ scopes: ['store_read'], webhook_events: ['customer/created'] });
  const declared = `url = '${receiver.url}${path}'`;
  await sql.unsafe(
    `update webhook set is_active = false, inactive_reason = 'gone', epoch = epoch + 1 where ${declared}`,
  );
  assert.equal((await api('PATCH', client, { webhook_query: 'fields=id' })).status, 200);
  const id = await publish('customer/created');
  assert.deepEqual(await idsIn(path, 1), [id]);
});

test('the store sees the webhooks that an app declares, without a key, and changes nothing of them', async () => {
  const { client } = await install({ scopes: ['transaction:read'], webhook_events: ['transaction/created'] });
  const { body: read } = await api('GET', client);
  const { body } = await api('GET', `/stores/${storeId}/webhooks?name=*${encodeURIComponent(String(read['name']))}`);
  const items = (body['_embedded'] as Record<string, Json[]>)['svc:webhooks'] ?? [];
  assert.deepEqual(
    items.map((item) => [item['name'], item['events'], item['encryption_key']]),
    [
      [`App events of ${String(read['name'])}`, items[0]?.['events'], null],
      [`Transaction events of ${String(read['name'])}`, ['transaction/created'], null],
    ],
  );
  const path = `/webhooks/${String(items[1]?.['id'])}`;
  assert.equal((await api('PATCH', path, { is_active: '0' })).status, 409);
  assert.equal((await api('DELETE', path)).status, 409);
  const browser = createBrowser(app.baseUrl);
  await browser.signIn('owner@example.com', 'a long password');
  const { text } = await browser.open(`/stores/${storeId}/grants`, HTML);
  assert.match(text, new RegExp(`Transaction events of ${String(read['name'])}`));
});

test('a declaration that is not valid is a 400 that names the member', async () => {
  const base = { name: 'Faulty', redirect_uris: [REDIRECT], webhook_url: `${receiver.url}/faulty` };
  const faulty: [Json, string][] = [
    [{ webhook_events: ['transaction/lost'] }, 'webhook_events'],
    [{ webhook_events: ['app/installed'] }, 'webhook_events'],
    [{ webhook_events: ['operator_event/store_created'] }, 'webhook_events'],
    [
      { webhook_events: Array.from({ length: 101 }, () => 'transaction/created').map((event, n) => event + n) },
      'webhook_events',
    ],
    [{ webhook_events: ['transaction/created'], webhook_url: null }, 'webhook_events'],
    [{ webhook_events: ['transaction/created', 'customer/created'], webhook_query: 'zoom=items' }, 'webhook_query'],
    [{ webhook_events: ['transaction/created'], webhook_query: 'colour=red' }, 'webhook_query'],
    [{ webhook_events: ['transaction/created'], webhook_query: `fields=${'x'.repeat(1_000)}` }, 'webhook_query'],
    [{ webhook_events: ['transaction/created'], webhook_filter: 'total_order<5' }, 'webhook_filter'],
    [{ webhook_events: ['transaction/created'], webhook_filter: 'date_created=2026-01-01' }, 'webhook_filter'],
  ];
  const { client } = await install({});
  for (const [declared, field] of faulty) {
    for (const [method, path] of [
      ['POST', '/clients'],
      ['PATCH', client],
    ] as const) {
      const { status, body } = await api(method, path, { ...(method === 'POST' && base), ...declared });
      const faults = (body['_embedded'] as Record<string, Json[]> | undefined)?.['svc:errors'] ?? [];
      const fields = new Set(faults.map((fault) => String(fault['field']).split('.', 1)[0]));
      assert.deepEqual([status, [...fields]], [400, [field]], `${method} ${JSON.stringify(declared).slice(0, 200)}`);
    }
  }
  const { status, body } = await api('PATCH', client, { webhook_events: ['transaction/created'] });
  assert.deepEqual([status, body['webhook_events']], [200, ['transaction/created']]);
});

test('the client and its page say how many stores have followed a change', async () => {
  const { client } = await install({ webhook_events: ['transaction/created'] });
  const clientId = client.slice('/clients/'.length);
  const browser = createBrowser(app.baseUrl);
  await browser.signIn('owner@example.com', 'a long password');
  const home = homeOf(sql);
  const [row] = await home<{ id: number }[]>`select id from client where client_id = ${clientId}`;
  await home.begin(async (lock) => {
    // No process continues meanwhile.
    await lock`select pg_advisory_xact_lock(${LOCKS.accessOfApp}, hashint8(${row?.id ?? 0}::bigint))`;
    await home`insert into app_webhook_change (client, stores_followed, stores_total) values (${row?.id ?? 0}, 4200, 10000)`;
    const { body } = await api('GET', client);
    assert.deepEqual([body['webhook_stores_followed'], body['webhook_stores_total']], [4_200, 10_000]);
    const { text } = await browser.open(`/account/clients/${clientId}`);
    assert.match(text, /4,200 of 10,000 stores/);
    assert.match((await browser.open(`/apps/${clientId}`)).text, /<code>transaction\/created<\/code>/);
  });
  const followed = await until(
    async () => (await api('GET', client)).body,
    (body) => body['webhook_stores_total'] === null,
  );
  assert.equal(followed['webhook_stores_followed'], null);
});

test('the form of the app declares events, one on each line, and shows what is not valid', async () => {
  const { client, path } = await install({});
  const clientId = client.slice('/clients/'.length);
  const browser = createBrowser(app.baseUrl);
  await browser.signIn('owner@example.com', 'a long password');
  const fields = { redirect_uris: REDIRECT, webhook_url: receiver.url + path };
  const save = (more: Record<string, string>) => saveApp(browser, clientId, { ...fields, ...more });
  const refused = await save({ webhook_events: 'transaction/created\ntransaction/lost', webhook_filter: 'colour' });
  assert.equal(refused.status, 422);
  for (const field of ['webhook_events', 'webhook_filter'])
    assert.match(refused.text, new RegExp(`id="${field}-fault"`), field);
  assert.equal((await save({ webhook_events: 'transaction/created\r\ncustomer/created' })).status, 303);
  const { body } = await api('GET', client);
  assert.deepEqual(body['webhook_events'], ['transaction/created', 'customer/created']);
});
