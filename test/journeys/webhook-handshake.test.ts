/** The setting REQUIRE_WEBHOOK_HANDSHAKE: a webhook gets a url, and an app declares one, only if the endpoint allows deliveries. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createUser } from '#identity/accounts/users.ts';
import { createBrowser, PASSWORD } from '../security/oauth-server.ts';
import { makeApp, newApp, saveApp } from '../security/page-forms.ts';
import { startTestApp } from '../setup/app.ts';
import { passingClock } from '../setup/clock.ts';
import { passwords } from '../setup/passwords.ts';
import { startReceiver, type Receiver } from '../setup/receiver.ts';

const clock = passingClock();
const app = await startTestApp({ clock, roles: ['serve'], env: { REQUIRE_WEBHOOK_HANDSHAKE: '1' } });
const open = await startTestApp({
  clock,
  roles: ['serve'],
  env: { REQUIRE_WEBHOOK_HANDSHAKE: '1', OPEN_REGISTRATION: '1' },
});
const collection = `/stores/${app.storeId}/webhooks`;
const minimal = { name: 'Orders', format: 'json', encryption_key: 'key' };

type Json = Record<string, unknown> & { _embedded?: { 'svc:errors'?: Record<string, string>[] } };

async function call(method: string, path: string, body?: object, headers: Record<string, string> = {}) {
  const response = await app.api(method, path, { body, headers });
  const text = await response.text();
  const json = JSON.parse(text || '{}') as Json;
  const faults = json._embedded?.['svc:errors'] ?? [];
  return { status: response.status, json, text, faults, headers: response.headers };
}

/** Answers as an endpoint that agrees, or does not. */
async function startEndpoint(isAgreed: boolean): Promise<Receiver> {
  const receiver = await startReceiver();
  receiver.answer((_got, response) =>
    response.writeHead(isAgreed ? 204 : 404, isAgreed ? { 'WebHook-Allowed-Origin': 'localhost' } : {}).end('private'),
  );
  return receiver;
}

const agreeing = await startEndpoint(true);
const refusing = await startEndpoint(false);
const requestsOf = ({ got }: Receiver) => got.map(({ method, path }) => `${method} ${path}`);

/** Makes a webhook at the endpoint that agrees; forgets the requests so far. */
async function makeWebhook(path = '/hook'): Promise<string> {
  clock.advance(60_000);
  const { status, json } = await call('POST', collection, { ...minimal, url: `${agreeing.url}${path}` });
  assert.equal(status, 201);
  agreeing.got.length = 0;
  refusing.got.length = 0;
  return `/webhooks/${String(json['id'])}`;
}

test('a webhook is created if its endpoint allows deliveries, which is asked once and says whom', async () => {
  const { status } = await call('POST', collection, { ...minimal, url: `${agreeing.url}/new` });
  assert.equal(status, 201);
  assert.deepEqual(requestsOf(agreeing), ['OPTIONS /new']);
  assert.equal(agreeing.got[0]?.headers['webhook-request-origin'], 'localhost');
});

test('otherwise the 400 names the url, what to respond and where to read about it, and nothing of the response', async () => {
  const { status, faults, text } = await call('POST', collection, { ...minimal, url: refusing.url });
  assert.deepEqual([status, faults.length, faults[0]?.['field']], [400, 1, 'url']);
  assert.equal(faults[0]?.['code'], 'handshake_failed');
  const message = faults[0]?.['message'] ?? '';
  for (const part of ['WebHook-Allowed-Origin: localhost', '404', `${app.baseUrl}/docs/receiving#handshake`])
    assert.ok(message.includes(part), message);
  assert.doesNotMatch(text, /private/);
  const [{ count } = {}] = await app.sql<{ count: number }[]>`select count(*)::int as count from webhook
    where url = ${`${refusing.url}/`} or url = ${refusing.url}`;
  assert.equal(count, 0);
});

for (const method of ['PATCH', 'PUT']) {
  test(`${method}: another url is asked, the present one is not, and a refusal changes nothing`, async () => {
    const webhook = await makeWebhook();
    const change = (url: string) => call(method, webhook, { ...minimal, name: 'Other', url });
    assert.equal((await change(`${agreeing.url}/hook`)).status, 200);
    assert.deepEqual(requestsOf(agreeing), []);
    const { status, faults } = await change(`${refusing.url}/hook`);
    assert.deepEqual([status, faults[0]?.['code']], [400, 'handshake_failed']);
    assert.equal((await call('GET', webhook)).json['url'], `${agreeing.url}/hook`);
    assert.equal((await change(`${agreeing.url}/other`)).status, 200);
    assert.deepEqual(requestsOf(agreeing), ['OPTIONS /other']);
    assert.equal((await call('GET', webhook)).json['url'], `${agreeing.url}/other`);
  });
}

test('a change without a url, and one that removes it, ask no endpoint', async () => {
  const webhook = await makeWebhook();
  assert.equal((await call('PATCH', webhook, { name: 'Other' })).status, 200);
  assert.equal((await call('PATCH', webhook, { url: null })).status, 200);
  assert.deepEqual(requestsOf(agreeing), []);
});

test('a request that is rejected anyway asks no endpoint', async () => {
  const webhook = await makeWebhook();
  const stale = await call('PATCH', webhook, { url: `${refusing.url}/x` }, { 'If-Match': '"other"' });
  assert.equal(stale.status, 412);
  const invalid = await call('PATCH', webhook, { url: `${refusing.url}/x`, filter: 'total:greater=x' });
  assert.deepEqual([invalid.status, invalid.faults.map(({ field }) => field)], [400, ['filter']]);
  const pull = await call('POST', collection, { ...minimal, is_held: 1, url: refusing.url });
  assert.deepEqual([pull.status, pull.faults.map(({ code }) => code)], [400, ['invalid_value']]);
  const foreign = await app.api('PATCH', webhook, { token: 'wrong', body: { url: refusing.url } });
  assert.equal(foreign.status, 401);
  assert.deepEqual(requestsOf(refusing), []);
});

test('a pull webhook needs no endpoint', async () => {
  assert.equal((await call('POST', collection, { ...minimal, is_held: 1 })).status, 201);
});

test('a repeated creation gets the first response without another handshake', async () => {
  clock.advance(60_000);
  agreeing.got.length = 0;
  const create = () =>
    call('POST', collection, { ...minimal, url: `${agreeing.url}/once` }, { 'Idempotency-Key': 'handshake-1' });
  const [first, second] = [await create(), await create()];
  assert.deepEqual([first.status, second.status, second.json['id']], [201, 201, first.json['id']]);
  assert.deepEqual(requestsOf(agreeing), ['OPTIONS /once']);
});

test('more than ten endpoints a minute are a 429 that says how long to wait', async () => {
  await makeWebhook();
  const statuses = new Set<number>();
  for (let n = 0; n < 9; n += 1)
    statuses.add((await call('POST', collection, { ...minimal, url: refusing.url })).status);
  assert.deepEqual([...statuses], [400]);
  const { status, faults, headers } = await call('POST', collection, { ...minimal, url: refusing.url });
  assert.deepEqual([status, faults[0]?.['code']], [429, 'too_many_requests']);
  assert.match(headers.get('retry-after') ?? '', /^[1-6]$/);
  clock.advance(60_000);
});

test('deliveries carry the name that the endpoint has allowed', async () => {
  const webhook = await makeWebhook();
  await call('PATCH', webhook, { event_resource: 'transaction' });
  assert.equal((await call('POST', `${webhook}/test`, {})).status, 200);
  const [request] = agreeing.got;
  assert.deepEqual([request?.method, request?.headers['webhook-request-origin']], ['POST', 'localhost']);
});

test('the server explains the handshake where the error leads, and describes the header of its deliveries', async () => {
  const documented = async (path: string, accept: string) => {
    const response = await fetch(app.baseUrl + path, { headers: { Accept: accept } });
    return response.text();
  };
  const page = await documented('/docs/receiving', 'text/html');
  assert.match(page, /id="handshake"[^]*WebHook-Allowed-Origin: localhost/);
  const json = JSON.parse(await documented('/docs/receiving', 'application/hal+json')) as Json;
  assert.equal(json['handshake_origin'], 'localhost');
  assert.match(await documented('/openapi.json', 'application/json'), /"name":"webhook-request-origin"/);
});

const REDIRECTS = { redirect_uris: ['https://app.example.com/cb'] };

async function register(
  url: string,
  method: 'POST' | 'PUT' = 'POST',
  path = '/register',
  more: object = {},
  token?: string,
) {
  const headers = {
    'Content-Type': 'application/json',
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  const body = JSON.stringify({ ...REDIRECTS, ...more, webhook_url: url });
  const response = await fetch(open.baseUrl + path, { method, headers, body });
  return {
    status: response.status,
    json: (await response.json()) as Record<string, unknown>,
    headers: response.headers,
  };
}

test('the url that an app declares is asked too: for a registered client, for the platform and for a person', async () => {
  const anonymous = await register(`${agreeing.url}/registered`);
  const management = [
    `/register/${String(anonymous.json['client_id'])}`,
    String(anonymous.json['registration_access_token']),
  ];
  await createUser(open.sql, passwords, { email: 'maker@example.com', password: PASSWORD, now: clock.now() });
  const browser = createBrowser(open.baseUrl);
  await browser.signIn('maker@example.com');
  const { clientId } = await newApp(browser, { webhook_url: `${agreeing.url}/of-person` });
  const declare: Record<string, (url: string) => Promise<number>> = {
    registered: async (url) => (await register(url)).status,
    moved: async (url) => {
      const [path = '', token = ''] = management;
      const { status, json } = await register(url, 'PUT', path, { client_id: anonymous.json['client_id'] }, token);
      const next = json['registration_access_token'];
      if (typeof next === 'string') management[1] = next;
      return status;
    },
    'of the platform': async (url) => {
      const body = { name: 'App', ...REDIRECTS, webhook_url: url };
      return (await open.api('POST', '/clients', { token: open.platformToken, body })).status;
    },
    'of a person': async (url) => (await makeApp(browser, { webhook_url: url })).status,
    'moved by a person': async (url) => (await saveApp(browser, clientId, { webhook_url: url })).status,
  };
  for (const [how, at] of Object.entries(declare)) {
    clock.advance(60_000);
    agreeing.got.length = 0;
    refusing.got.length = 0;
    const path = `/${how.replaceAll(' ', '-')}`;
    assert.ok([400, 422].includes(await at(refusing.url + path)), how);
    assert.ok([200, 201, 303].includes(await at(agreeing.url + path)), how);
    assert.deepEqual([requestsOf(refusing), requestsOf(agreeing)], [[`OPTIONS ${path}`], [`OPTIONS ${path}`]], how);
  }
  const declared = await open.sql<{ url: string }[]>`select url from app_webhook`;
  assert.deepEqual(
    declared.filter(({ url }) => url.startsWith(refusing.url)),
    [],
  );
});

test('open registrations of a network have as many endpoints asked as a store, and an invalid one has none', async () => {
  clock.advance(60_000);
  refusing.got.length = 0;
  assert.equal((await register(refusing.url, 'POST', '/register', { redirect_uris: [] })).status, 400);
  assert.deepEqual(requestsOf(refusing), []);
  for (let n = 0; n < 10; n += 1) assert.equal((await register(`${refusing.url}/${n}`)).status, 400);
  const { status, headers } = await register(refusing.url);
  assert.deepEqual([status, refusing.got.length], [429, 10]);
  assert.match(headers.get('retry-after') ?? '', /^\d+$/);
  clock.advance(60_000);
});

test('without the setting no endpoint is asked, and deliveries do not carry the name', async () => {
  const plain = await startTestApp({ roles: ['serve'] });
  refusing.got.length = 0;
  const body = { ...minimal, url: refusing.url, event_resource: 'transaction' };
  const made = await plain.api('POST', `/stores/${plain.storeId}/webhooks`, { body });
  assert.equal(made.status, 201);
  assert.deepEqual(requestsOf(refusing), []);
  await plain.api('POST', `${new URL(made.headers.get('location') ?? '').pathname}/test`, { body: {} });
  assert.deepEqual([refusing.got.length, refusing.got[0]?.headers['webhook-request-origin']], [1, undefined]);
  const page = await plain.api('GET', '/docs/receiving', { headers: { Accept: 'text/html' } });
  assert.doesNotMatch(await page.text(), /WebHook-/);
});
