/** API and pages with separate hosts in one process: pages, forms and the cookie belong to the second host only. */
import assert from 'node:assert/strict';
import { request, type IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { PASSWORD, startAuthorizationServer } from './oauth-server.ts';

const [API, AUTH] = ['http://api.example.test', 'http://auth.example.test'];
const { origin, ada } = await startAuthorizationServer({ BASE_URL: API, AUTH_URL: AUTH });

/** `fetch` sets the Host by itself. */
function ask(
  method: string,
  path: string,
  host: string,
  form = '',
  more: Record<string, string> = {},
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const type = { 'Content-Type': 'application/x-www-form-urlencoded' };
  const headers = { Host: new URL(host).host, 'Sec-Fetch-Site': 'same-origin', ...type, ...more };
  const asked = request(origin, { method, path, headers, agent: false }, (response) => resolve(response.resume()));
  asked.on('error', reject);
  asked.end(form);
  return promise;
}
const signIn = new URLSearchParams({ email: ada, password: PASSWORD }).toString();

test('a page requested at the host of the API redirects to the host of the pages', async () => {
  for (const path of ['/sign-in?return_to=%2Faccount', '/authorize?state=a+b', '/account']) {
    const { statusCode, headers } = await ask('GET', path, API);
    assert.deepEqual([statusCode, headers.location], [302, AUTH + path]);
  }
});

test('the host of the API has no sign-in', async () => {
  const refused = await ask('POST', '/sign-in', API, signIn);
  assert.deepEqual([refused.statusCode, refused.headers['set-cookie']], [403, undefined]);
  const taken = await ask('POST', '/sign-in', AUTH, signIn);
  assert.deepEqual([taken.statusCode, taken.headers['set-cookie']?.length], [303, 2]);
});

test('a resource is shown to a browser at the host of the pages, and to a program at the host of the API', async () => {
  const page = { Accept: 'text/html' };
  const sent = await ask('GET', '/stores?limit=5', API, '', page);
  assert.deepEqual([sent.statusCode, sent.headers.location], [302, `${AUTH}/stores?limit=5`]);
  assert.equal((await ask('POST', '/stores/256/webhooks', API, 'name=x', page)).statusCode, 403);
  const program = await ask('GET', '/', API, '', { Accept: 'application/hal+json', 'SERVICE-API-VERSION': '1' });
  assert.equal(program.statusCode, 200);
});

test('an API below a path links to itself', async () => {
  const below = await startAuthorizationServer({ BASE_URL: `${AUTH}/v1`, AUTH_URL: AUTH });
  const read = (path: string) => fetch(below.origin + path, { headers: { 'SERVICE-API-VERSION': '1' } });
  const home = (await (await read('/v1')).json()) as { _links: { self: { href: string } } };
  assert.equal(home._links.self.href, `${AUTH}/v1`);
  assert.equal((await read(new URL(home._links.self.href).pathname)).status, 200);
});

test('an invalid request target is no server error', async () => {
  for (const target of ['*', 'http://elsewhere.example.test/stores?limit=5']) {
    const { statusCode } = await ask('GET', target, AUTH, '', { Accept: 'text/html' });
    assert.ok(statusCode !== undefined && statusCode < 500, `${target}: ${statusCode}`);
  }
});
