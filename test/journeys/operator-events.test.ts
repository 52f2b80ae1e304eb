/** The webhooks of the platform store are sent what happens in all stores; no other store, and no app, gets it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { OPERATOR_EVENT, eventsOf } from '#catalog/catalog.ts';
import { resourceDocument, FULL_SHAPE } from '#catalog/resource-document.ts';
import { readConfig } from '#config/config.ts';
import { createLog } from '#core/log.ts';
import { defaultRepresentation } from '#hypermedia/render.ts';
import { offeredActions, WITH_ACTIONS } from '#hypermedia/offered-actions.ts';
import { TABLE_CHECKS } from '../../src/cli/doctor/table-checks.ts';
import { readPages } from '../docs/page.ts';
import { startTestApp } from '../setup/app.ts';
import { faultsOf as schemaFaults } from '../setup/event-catalogue.ts';
import { startReceiver } from '../setup/receiver.ts';
import { homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';

type Json = Record<string, unknown>;
type Event = Json & { _links: Record<string, { href: string }> };

const app = await startTestApp();
const { baseUrl, storeId: platformStore, sql, userId } = app;
await app.restart({ PLATFORM_STORE: String(platformStore) });
// The clock is moved by hours.
await homeOf(sql)`update access_token set date_expires = '2100-01-01'`;
const receiver = await startReceiver();
receiver.answer(({ path }, response) => void response.writeHead(path.startsWith('/gone') ? 410 : 204).end());
const HOUR_MS = 3_600_000;
const KEY = `whsec_${Buffer.alloc(24, 1).toString('base64')}`;

async function call(method: string, path: string, body?: unknown, token = app.platformToken) {
  const response = await app.api(method, path, { token, body });
  const text = await response.text();
  return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Json };
}

async function made(path: string, body: unknown, token?: string): Promise<Json> {
  const { status, body: document } = await call('POST', path, body, token);
  assert.equal(status, 201, JSON.stringify(document));
  return document;
}

const hook = (path: string, subscription: object) => ({
  name: path,
  url: `${receiver.url}/${path}`,
  format: 'json',
  encryption_key: KEY,
  ...subscription,
});
const OF_OPERATOR = { event_resource: OPERATOR_EVENT };

/** Returns the events for the operator about a store that have arrived, when there are `count`. */
async function arrived(storeId: number, count: number, path = '/operator'): Promise<[name: string, Event][]> {
  const read = async () =>
    receiver.got
      .filter((got) => got.path === path)
      .map(({ headers, body }): [string, Event] => [
        String(headers['service-webhook-event']),
        JSON.parse(String(body)) as Event,
      ])
      .filter(([, event]) => event['store_id'] === storeId);
  return until(read, ({ length }) => length >= count);
}

let stores = 0;
async function newStore(): Promise<number> {
  const domain = `store${(stores += 1)}.example.com`;
  const { id } = await made('/stores', { name: 'Tea', domain, email: 'tea@example.com', time_zone: 'Asia/Tokyo' });
  return Number(id);
}

await made(`/stores/${platformStore}/webhooks`, hook('operator', OF_OPERATOR));

test('a new store is an event, signed as all events are, with links to what it concerns', async () => {
  const storeId = await newStore();
  const [[name, event] = assert.fail()] = await arrived(storeId, 1);
  assert.equal(name, 'operator_event/store_created');
  const { id, date_created: date, _links: links, ...properties } = event;
  assert.deepEqual(properties, {
    store_id: storeId,
    webhook_id: null,
    client_id: null,
    reason: null,
    events_total: null,
    date_from: null,
  });
  assert.equal(links['svc:concerned_store']?.href, `${baseUrl}/stores/${storeId}`);
  assert.equal(links['self']?.href, `${baseUrl}/stores/${platformStore}/operator_events/${Number(id)}`);
  assert.match(String(date), /^\d{4}-\d\d-\d\dT/);
  const got = receiver.got.find(({ body }) => String(body).includes(`"id":${Number(id)},`)) ?? assert.fail();
  new Webhook(KEY).verify(got.body.toString(), got.headers as Record<string, string>);
  const read = await call('GET', new URL(links['self']?.href ?? '').pathname);
  assert.deepEqual([read.status, read.body['store_id']], [200, storeId]);
});

test('the body is as docs/platform.md shows it', async () => {
  const { blocks } = readPages().find(({ path }) => path === 'docs/platform.md') ?? assert.fail('no page');
  const text = blocks.find((block) => block.text.includes('operator_events'))?.text ?? assert.fail('no example');
  const { _links, ...properties } = JSON.parse(text) as Event;
  const naming = { baseUrl: 'http://localhost:8080', relationPrefix: 'svc' };
  const frozen = { storeId: 986, type: OPERATOR_EVENT, id: String(properties['id']), baseUrl: naming.baseUrl } as const;
  const document = resourceDocument({ ...frozen, body: JSON.stringify(properties) }, FULL_SHAPE);
  assert.deepEqual(JSON.parse(defaultRepresentation.format.render(document, naming)), { _links, ...properties });
  const [[, sent] = assert.fail()] = await arrived(await newStore(), 1);
  assert.deepEqual(Object.keys(sent), ['_links', ...Object.keys(properties)]);
});

test('an app that gets its first access to a store, and loses its last one, is an event', async () => {
  const storeId = await newStore();
  assert.equal((await call('POST', `/stores/${storeId}/members`, { user: userId, role: 'owner' })).status, 201);
  const body = { name: 'Export', owner: userId, store: storeId, scopes: ['store_read'] };
  const { client_id: clientId } = await made('/clients', body);
  const [, [name, event] = assert.fail()] = await arrived(storeId, 2);
  assert.deepEqual([name, event['client_id']], ['operator_event/app_installed', clientId]);
  assert.equal(event._links['svc:client']?.href, `${baseUrl}/clients/${String(clientId)}`);
  const { body: listed } = await call('GET', `/users/${userId}/grants?client_id=${String(clientId)}`);
  const [[grant] = []] = Object.values(listed['_embedded'] as Record<string, { id: number }[]>);
  assert.equal((await call('DELETE', `/grants/${grant?.id}`)).status, 204);
  const [, , [last, ended] = assert.fail()] = await arrived(storeId, 3);
  assert.deepEqual([last, ended['client_id']], ['operator_event/app_uninstalled', clientId]);
});

test('a disabled webhook is an event, and events that did not arrive are one per webhook and hour', async () => {
  const storeId = await newStore();
  const { id } = await made(`/stores/${storeId}/webhooks`, hook(`gone/${storeId}`, { events: ['customer/created'] }));
  // The failures are in one hour.
  app.clock.advance(1.5 * HOUR_MS - (app.clock.now().getTime() % HOUR_MS));
  const events = Array.from({ length: 3 }, (_, n) => ({ event: 'customer/created', resource: { id: n + 1 } }));
  assert.equal((await call('POST', `/stores/${storeId}/events`, events)).status, 200);
  const [, [name, event] = assert.fail()] = await arrived(storeId, 2);
  assert.equal(name, 'operator_event/webhook_disabled');
  assert.deepEqual([event['webhook_id'], event['reason'], event['client_id']], [id, 'gone', null]);
  assert.equal(event._links['svc:webhook']?.href, `${baseUrl}/webhooks/${Number(id)}`);
  await until(
    async () => (await call('GET', `/webhooks/${Number(id)}/statuses?status=failed`)).body['total_items'],
    (total) => Number(total) === 3,
  );
  app.clock.advance(2 * HOUR_MS);
  const [, , [last, exhausted] = assert.fail()] = await arrived(storeId, 3);
  assert.equal(last, 'operator_event/delivery_exhausted');
  assert.deepEqual([exhausted['webhook_id'], exhausted['events_total']], [id, 3]);
  assert.match(String(exhausted['date_from']), /:00:00\+0[12]00$/);
  // The next hours have nothing to count.
  app.clock.advance(3 * HOUR_MS);
  await arrived(await newStore(), 1);
  assert.equal((await arrived(storeId, 3)).length, 3);
});

test('a webhook that does not receive events for the operator makes one event, when it is disabled', async () => {
  const url = `gone/${platformStore}`;
  const { id } = await made(`/stores/${platformStore}/webhooks`, hook(url, OF_OPERATOR));
  await newStore();
  const [[name, event] = assert.fail()] = await arrived(platformStore, 1);
  assert.deepEqual([name, event['webhook_id']], ['operator_event/webhook_disabled', id]);
  await until(
    async () => (await call('GET', `/webhooks/${Number(id)}/statuses?status=failed`)).body['total_items'],
    (total) => Number(total) >= 1,
  );
  for (const hours of [2, 2]) {
    app.clock.advance(hours * HOUR_MS);
    await arrived(await newStore(), 1);
  }
  assert.equal((await arrived(platformStore, 1)).length, 1);
});

test('each of them matches the schema of its event', async () => {
  const bodies = receiver.got
    .filter(({ path }) => path === '/operator')
    .map(({ headers, body }) => ({
      event: String(headers['service-webhook-event']),
      body: JSON.parse(String(body)) as Json,
    }));
  const schemas = new Map<string, Json>();
  for (const { event } of bodies)
    schemas.set(event, (await call('GET', `/docs/events/${event}`)).body['schema'] as Json);
  assert.deepEqual(schemaFaults(bodies, schemas), []);
  const missing = eventsOf(OPERATOR_EVENT).filter((event) => !schemas.has(event));
  // In test/security/operator-outbox.test.ts, with the person who suspends.
  assert.deepEqual(missing, ['operator_event/store_suspended']);
});

/** Returns the codes and fields of the faults of a refused request. */
const faultsOf = ({ status, body }: Awaited<ReturnType<typeof call>>) => {
  assert.equal(status, 400, JSON.stringify(body));
  const [errors = []] = Object.values(body['_embedded'] as Record<string, { code: string; field: string }[]>);
  return errors.map(({ code, field }) => `${code} ${field}`);
};

/** Returns the choices of the events that forms of the webhooks of a store offer. */
async function offeredIn(storeId: number): Promise<string> {
  const response = await app.api('GET', `/stores/${storeId}/webhooks`, {
    token: app.platformToken,
    headers: { Accept: WITH_ACTIONS },
  });
  return JSON.stringify(offeredActions(await response.text()));
}

test('another store cannot subscribe, is offered no such event, and has no list of them', async () => {
  const storeId = await newStore();
  const { id } = await made(`/stores/${storeId}/webhooks`, hook('other', { event_resource: 'customer' }));
  const refused = ['invalid_value event_resource'];
  for (const subscription of [OF_OPERATOR, { events: [eventsOf(OPERATOR_EVENT)[0]] }]) {
    assert.deepEqual(faultsOf(await call('POST', `/stores/${storeId}/webhooks`, hook('x', subscription))), refused);
    const change = { event_resource: null, events: [], ...subscription };
    assert.deepEqual(faultsOf(await call('PATCH', `/webhooks/${Number(id)}`, change)), refused);
    assert.deepEqual(faultsOf(await call('PUT', `/webhooks/${Number(id)}`, hook('x', subscription))), refused);
  }
  for (const [store, isOffered] of [
    [storeId, false],
    [platformStore, true],
  ] as const) {
    assert.equal((await offeredIn(store)).includes('operator_event/store_created'), isOffered);
    const { body } = await call('GET', `/stores/${store}`);
    assert.equal(Object.hasOwn(body['_links'] as object, 'svc:operator_events'), isOffered);
  }
  const { body: own } = await call('GET', `/stores/${storeId}/events?resource_type=${OPERATOR_EVENT}`);
  assert.equal(Number(own['total_items']), 0);
  // Its webhook was sent nothing, and its events are published by nothing else.
  assert.deepEqual(await arrived(storeId, 0, '/other'), []);
  const published = await call('POST', `/stores/${platformStore}/events`, {
    event: 'operator_event/store_created',
    resource: { id: 1 },
  });
  assert.equal(published.status, 409);
});

test('an app with full access to the platform store neither reads nor receives them', async () => {
  await arrived(await newStore(), 1);
  const store = `/stores/${platformStore}`;
  const read = async (path: string) => call('GET', path, undefined, app.token);
  const asPlatform = await call('GET', `${store}/events?resource_type=${OPERATOR_EVENT}&limit=1`);
  const [[event] = []] = Object.values(asPlatform.body['_embedded'] as Record<string, { id: number }[]>);
  const id = event?.id;
  for (const path of [`${store}/operator_events`, `${store}/operator_events/${id}`, `${store}/events/${id}`])
    assert.deepEqual([(await call('GET', path)).status, (await read(path)).status], [200, 404], path);
  assert.equal((await read(`${store}/events/${id}/payload`)).status, 404);
  assert.equal(Number((await read(`${store}/events?resource_type=${OPERATOR_EVENT}`)).body['total_items']), 0);
  const all = await read(`${store}/events?limit=100`);
  assert.equal(JSON.stringify(all.body).includes(OPERATOR_EVENT), false);
  assert.equal((await call('POST', `${store}/operator_events/${id}/send_webhooks`, {}, app.token)).status, 404);
  // The webhook is listed, and nothing of what it is sent.
  const { body } = await call('GET', `${store}/webhooks?event_resource=${OPERATOR_EVENT}&is_active=1`);
  const [[webhook] = []] = Object.values(body['_embedded'] as Record<string, { id: number }[]>);
  const address = `/webhooks/${webhook?.id}`;
  for (const list of ['statuses', 'logs']) {
    assert.notEqual(Number((await call('GET', `${address}/${list}`)).body['total_items']), 0);
    assert.equal(Number((await read(`${address}/${list}`)).body['total_items']), 0);
  }
  assert.equal(JSON.stringify((await read(`${store}/statuses`)).body).includes(OPERATOR_EVENT), false);
  for (const action of ['test', 'recover', 'retry_pending'])
    assert.equal((await call('POST', `${address}/${action}`, {}, app.token)).status, 403, action);
  const refused = ['invalid_value event_resource'];
  const moved = { url: `${receiver.url}/app` };
  assert.deepEqual(faultsOf(await call('PATCH', address, moved, app.token)), refused);
  assert.deepEqual(faultsOf(await call('POST', `${store}/webhooks`, hook('app', OF_OPERATOR), app.token)), refused);
  const away = faultsOf(await call('PATCH', address, { event_resource: 'customer', events: [] }));
  assert.deepEqual(away, refused);
  const { body: metadata } = await call('GET', '/.well-known/oauth-authorization-server');
  assert.equal(JSON.stringify(metadata['scopes_supported']).includes(OPERATOR_EVENT), false);
});

test('a publish that fails, and the end of the process, lose no event and publish none twice', async () => {
  const refusing = homeOf(sql);
  await refusing`create function refuse_operator() returns trigger language plpgsql as $$ begin
    if new.resource_type = 'operator_event' then raise exception 'refused'; end if; return new; end $$`;
  await refusing`create trigger refuse_operator before insert on event for each row execute function refuse_operator()`;
  const [before] = [await newStore(), await newStore()];
  const waiting = async () => refusing<{ action: string }[]>`select action from operator_outbox`;
  assert.equal((await waiting()).length, 2);
  await app.stop();
  assert.equal((await waiting()).length, 2);
  await refusing`drop trigger refuse_operator on event`;
  await app.restart({ PLATFORM_STORE: String(platformStore) });
  const after = await newStore();
  await arrived(after, 1);
  assert.deepEqual([(await arrived(before, 1)).length, (await arrived(after, 1)).length], [1, 1]);
  assert.equal((await waiting()).length, 0);
});

test('without the setting nothing is noted', async () => {
  await app.restart({ PLATFORM_STORE: '' });
  const storeId = await newStore();
  assert.deepEqual(faultsOf(await call('POST', `/stores/${platformStore}/webhooks`, hook('x', OF_OPERATOR))), [
    'invalid_value event_resource',
  ]);
  await app.restart({ PLATFORM_STORE: String(platformStore) });
  await arrived(await newStore(), 1);
  assert.deepEqual(await arrived(storeId, 0), []);
});

test('a server whose platform store does not exist says so when it starts', async (t) => {
  const lines: string[] = [];
  const log = createLog('error', { write: (line) => void lines.push(line) });
  const other = await startTestApp({ env: { PLATFORM_STORE: '999999' }, log });
  t.after(() => other.stop());
  const [line = ''] = await until(
    async () => lines.filter((one) => one.includes('PLATFORM_STORE')),
    ({ length }) => length > 0,
  );
  assert.equal((JSON.parse(line) as Json)['store'], 999_999);
});

test('the setting is the id of a store, and doctor says whether the store exists', async () => {
  for (const wrong of ['x', '0', '-1', '1.5'])
    assert.throws(() => readConfig({ PLATFORM_STORE: wrong }, '/'), /PLATFORM_STORE must be/);
  const check = TABLE_CHECKS.find(({ name }) => name === 'platform_store') ?? assert.fail();
  const stateOf = async (env: Record<string, string>) => {
    const home = homeOf(sql);
    const [found] = await check.run({ config: readConfig(env, '/'), clock: app.clock, sql: home, direct: home });
    return found?.state;
  };
  assert.equal(await stateOf({}), 'ok');
  assert.equal(await stateOf({ PLATFORM_STORE: String(platformStore) }), 'ok');
  assert.equal(await stateOf({ PLATFORM_STORE: '999999' }), 'fail');
});
