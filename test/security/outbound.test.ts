/**
 * Addresses that deliveries may not reach, in every spelling: rejected when a webhook is written, and again when a delivery is sent,
 * because a row may be older than the rule or written past the API.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createGuard } from '#delivery/attempt/http/guard.ts';
import { startTestApp } from '../setup/app.ts';
import { openFixture } from '../setup/exchanges.ts';
import { freePort } from '../setup/free-port.ts';
import { resolverOf } from '../setup/name-server.ts';
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

test("the operator's allowed addresses do not include Halcyon's own ports", async () => {
  const { port } = new URL(lenient.baseUrl);
  const own = [port, String(metricsPort)].flatMap((one) =>
    ['127.0.0.1', 'localhost', '0x7f.1', 'shop.localhost'].map((host) => `http://${host}:${one}/hook`),
  );
  for (const url of own) assert.deepEqual([url, await write(lenient, url)], [url, '400 url forbidden_address']);
  const other = await freePort();
  assert.equal(await write(lenient, `http://127.0.0.1:${other}/hook`), '201');
});
