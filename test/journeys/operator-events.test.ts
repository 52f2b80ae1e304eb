/** The webhooks of the platform store are sent what happens in all stores; no other store, and no app, gets it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { OPERATOR_EVENT, eventsOf } from '#catalog/catalog.ts';
import { createUser } from '#identity/accounts/users.ts';
import { addMember } from '#stores/store.ts';
import { offeredActions, WITH_ACTIONS } from '#hypermedia/offered-actions.ts';
import { startTestApp } from '../setup/app.ts';
import { passwords } from '../setup/passwords.ts';
import { startReceiver } from '../setup/receiver.ts';
import { homeOf } from '../setup/suite-map.ts';
import { until } from '../setup/until.ts';

type Json = Record<string, unknown>;
type Event = Json & { _links: Record<string, { href: string }> };

const app = await startTestApp();
const { baseUrl, storeId: platformStore, sql, userId } = app;
await app.restart({ PLATFORM_STORE: String(platformStore) });
const receiver = await startReceiver();
receiver.answer(({ path }, response) => void response.writeHead(path.startsWith('/gone') ? 410 : 204).end());
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
  const read = await call('GET', new URL(String(links['self']?.href)).pathname);
  assert.deepEqual([read.status, read.body['store_id']], [200, storeId]);
});

test('an app that gets its first access to a store, and loses its last one, is an event', async () => {
  const storeId = await newStore();
  const members = [userId];
  const person = { email: `second${storeId}@example.com`, password: 'a long password', now: app.clock.now() };
  members.push((await createUser(homeOf(sql), passwords, person)).id);
  const grants: number[] = [];
  for (const member of members) {
    await call('POST', `/stores/${storeId}/members`, { user: member, role: 'owner' });
  }
  const external = `export-${storeId}`;
  const body = { name: 'Export', external_id: external, owner: members[0], store: storeId, scopes: ['store_read'] };
  const { client_id: clientId } = await made('/clients', body);
  const [, [name, event] = assert.fail()] = await arrived(storeId, 2);
  assert.deepEqual([name, event['client_id']], ['operator_event/app_installed', clientId]);
  assert.equal(event._links['svc:client']?.href, `${baseUrl}/clients/${String(clientId)}`);
  const { body: listed } = await call('GET', `/users/${members[0]}/grants?client_id=${String(clientId)}`);
  const [embedded = []] = Object.values(listed['_embedded'] as Record<string, { id: number }[]>);
  grants.push(...embedded.map(({ id }) => id));
  assert.equal((await call('DELETE', `/grants/${grants[0]}`)).status, 204);
  const [, , [last, ended] = assert.fail()] = await arrived(storeId, 3);
  assert.deepEqual([last, ended['client_id']], ['operator_event/app_uninstalled', clientId]);
});

test('a disabled webhook is an event, and events that did not arrive are one per webhook and hour', async () => {
  const storeId = await newStore();
  const { id } = await made(`/stores/${storeId}/webhooks`, hook(`gone/${storeId}`, { events: ['customer/created'] }));
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
  app.clock.advance(2 * 3_600_000);
  const [, , [last, exhausted] = assert.fail()] = await arrived(storeId, 3);
  assert.equal(last, 'operator_event/delivery_exhausted');
  assert.deepEqual([exhausted['webhook_id'], exhausted['events_total']], [id, 3]);
  assert.match(String(exhausted['date_from']), /:00:00\+0[12]00$/);
});
