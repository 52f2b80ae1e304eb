/**
 * Addresses that deliveries may not reach, in every spelling: rejected when a webhook is written, and again when a delivery is sent,
 * because a row may be older than the rule or written past the API.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGuard } from '#delivery/attempt/http/outbound-guard.ts';
import { startTestApp } from '../setup/app.ts';
import { openFixture } from '../setup/exchanges.ts';
import { startForwardProxy } from '../setup/forward-proxy.ts';
import { freePort } from '../setup/free-port.ts';
import { resolverOf } from '../setup/name-server.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { FORBIDDEN_HOSTS, UNSOUND_HOSTS } from './outbound/spellings.ts';

const metricsPort = await freePort();
const strict = await startTestApp({ roles: ['serve'], env: { OUTBOUND_ALLOW: '' } });
const lenient = await startTestApp({ roles: ['serve'], env: { METRICS_PORT: String(metricsPort) } });

type Refusal = { _embedded: { 'svc:errors': { code: string; field: string; message: string }[] } };

async function write(app: typeof strict, url: string, method = 'POST', path = `/stores/${app.storeId}/webhooks`) {
  const body = method === 'POST' ? { name: 'Orders', format: 'json', encryption_key: 'key', url } : { url };
  const response = await app.api(method, path, { body });
  if (response.ok) return `${response.status}`;
  const { _embedded } = (await response.json()) as Refusal;
  return [response.status, ..._embedded['svc:errors'].map(({ field, code }) => `${field} ${code}`)].join(' ');
}

const { send } = openFixture({}, { guard: createGuard({}, resolverOf()) });

for (const [what, hosts] of Object.entries(FORBIDDEN_HOSTS)) {
  test(`rejected when it is written and when it is sent: ${what}`, async () => {
    for (const host of hosts) {
      assert.deepEqual([host, await write(strict, `https://${host}/hook`)], [host, '400 url forbidden_address']);
      for (const url of [`http://${host}:8443/hook`, `https://${host}/hook`])
        assert.deepEqual([url, (await send(url).outcome).kind], [url, 'blocked']);
    }
  });
}

test('a host that only some programs understand is invalid', async () => {
  for (const host of UNSOUND_HOSTS)
    assert.deepEqual([host, await write(strict, `http://${host}/hook`)], [host, '400 url invalid_value']);
});

test('a change of a webhook cannot set a forbidden address either', async () => {
  const made = await strict.api('POST', `/stores/${strict.storeId}/webhooks`, {
    body: { name: 'Orders', format: 'json', encryption_key: 'key', url: 'https://1.1.1.1/hook' },
  });
  const path = new URL(made.headers.get('location') ?? '').pathname;
  for (const method of ['PATCH', 'PUT']) {
    const body = { name: 'Orders', format: 'json', encryption_key: 'key', url: 'https://0x7f.1/hook' };
    const response = await strict.api(method, path, { body });
    const { _embedded } = (await response.json()) as Refusal;
    assert.deepEqual(
      [response.status, _embedded['svc:errors'].map(({ code, message }) => [code, message])],
      [400, [['forbidden_address', 'url: deliveries may not reach 127.0.0.1']]],
    );
  }
});

test("the operator's allowed addresses do not include the port of the proxy either", async () => {
  const own = await freePort();
  const app = await startTestApp({ roles: ['serve'], env: { OUTBOUND_PROXY: `http://127.0.0.1:${own}` } });
  assert.equal(await write(app, `http://127.0.0.1:${own}/hook`), '400 url forbidden_address');
});

test('deliveries to public addresses go through the proxy of the operator, with its credentials', async () => {
  const [proxy, receiver] = [await startForwardProxy(), await startReceiver()];
  proxy.say(() => ({ port: Number(new URL(receiver.url).port) }));
  const OUTBOUND_PROXY = `http://halcyon:a%40b@127.0.0.1:${proxy.port}`;
  const app = await startTestApp({ env: { OUTBOUND_PROXY } });
  const events = ['transaction/created'];
  const body = { name: 'Orders', format: 'json', encryption_key: 'key', url: 'http://1.1.1.1:8080/hook', events };
  assert.equal((await app.api('POST', `/stores/${app.storeId}/webhooks`, { body })).status, 201);
  const event = { event: 'transaction/created', resource: { id: 1 } };
  await app.api('POST', `/stores/${app.storeId}/events`, { token: app.platformToken, body: event });
  await until(
    async () => receiver.got.length,
    (count) => count === 1,
  );
  assert.deepEqual(proxy.asked, ['1.1.1.1:8080']);
  assert.deepEqual(proxy.credentials, [`Basic ${Buffer.from('halcyon:a@b').toString('base64')}`]);
});

test("the operator's allowed addresses do not include Halcyon's own ports", async () => {
  const { port } = new URL(lenient.baseUrl);
  const own = [port, String(metricsPort)].flatMap((one) =>
    ['127.0.0.1', 'localhost', '0x7f.1', 'shop.localhost'].map((host) => `http://${host}:${one}/hook`),
  );
  for (const url of own) assert.deepEqual([url, await write(lenient, url)], [url, '400 url forbidden_address']);
  const other = await freePort();
  assert.equal(await write(lenient, `http://127.0.0.1:${other}/hook`), '201');
});
