/**
 * A secret in every place where it does not belong, at every address: no error repeats it, and the log does not contain
 * it. Clients misplace secrets by mistake, and errors and logs have more readers than the secret.
 */
import assert from 'node:assert/strict';
import { Agent, request } from 'node:http';
import { after, test } from 'node:test';
import { amountOf } from '../setup/amount.ts';
import { captureLogs } from './at-rest/capture.ts';
import { findSecrets } from './at-rest/search.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { fillIn, routeTable } from './route-table.ts';

const logs = captureLogs();
const agent = new Agent({ keepAlive: true });
after(() => agent.destroy());
const server = await startAuthorizationServer({}, { log: logs.log });
const { origin, client, browser, platform } = server;

const { body: granted } = await server.redeem(await server.newCode());
const { body: ofPlatform } = await server.token({ grant_type: 'client_credentials', ...platform });
const secrets = new Map([
  ['the access token', String(granted['access_token'])],
  ['the session', browser.jar.get('halcyon') ?? ''],
]);

type Sent = { path: string; headers: Record<string, string>; body?: string };
type Place = (secret: string, path: string) => Sent;

const JSON_TYPE = { 'Content-Type': 'application/json' };
const FORM_TYPE = { 'Content-Type': 'application/x-www-form-urlencoded' };
const withBody = (path: string, headers: Record<string, string>, body: string): Sent => ({ path, headers, body });

// oxfmt-ignore
const places: Readonly<Record<string, Place>> = {
  'the query, as access_token':     (secret, path) => ({ path: `${path}?access_token=${secret}`, headers: {} }),
  'the query, as a value':          (secret, path) => ({ path: `${path}?limit=${secret}&zoom=${secret}&fields=${secret}`, headers: {} }),
  'the query, as a name':           (secret, path) => ({ path: `${path}?${secret}=1&${secret}=2`, headers: {} }),
  'an address that cannot be decoded': (secret, path) => ({ path: `${path}/${secret}%zz`, headers: {} }),
  'an unknown address':             (secret, path) => ({ path: `${path}/${secret}/${secret}`, headers: {} }),
  'an address of another host':     (secret, path) => ({ path: `http://${secret}.example${path}`, headers: {} }),
  'the version header':             (secret, path) => ({ path, headers: { 'SERVICE-API-VERSION': secret } }),
  'Accept':                         (secret, path) => ({ path, headers: { Accept: secret } }),
  'Content-Type':                   (secret, path) => ({ path, headers: { 'Content-Type': `${secret}/${secret}; charset=${secret}` } }),
  'Authorization, without a scheme': (secret, path) => ({ path, headers: { Authorization: secret } }),
  'Authorization, under Basic':     (secret, path) => ({ path, headers: { Authorization: `Basic ${secret}` } }),
  'Basic, as the client_id':        (secret, path) => ({ path, headers: { Authorization: `Basic ${btoa(`${secret}:${secret}`)}` } }),
  'a cookie of another name':       (secret, path) => ({ path, headers: { Cookie: `${secret}=${secret}; halcyon=${secret}` } }),
  'Origin':                         (secret, path) => ({ path, headers: { Origin: `https://${secret}.example`, 'Sec-Fetch-Site': secret } }),
  'a header of its own':            (secret, path) => ({ path, headers: { [secret]: secret, 'X-Api-Key': secret } }),
  'a body with the secret only':    (secret, path) => withBody(path, JSON_TYPE, secret),
  'an incomplete body of JSON':     (secret, path) => withBody(path, JSON_TYPE, `{"name":"${secret}`),
  'the name of a member':           (secret, path) => withBody(path, JSON_TYPE, JSON.stringify({ [secret]: { [secret]: 1 } })),
  'a repeated member':              (secret, path) => withBody(path, JSON_TYPE, `{"${secret}":1,"${secret}":2}`),
  'a member with a NUL':            (secret, path) => withBody(path, JSON_TYPE, `{"${secret}":"\\u0000"}`),
  'members of every wrong type':    (secret, path) => withBody(path, JSON_TYPE, JSON.stringify({ name: [secret], url: secret, events: [secret], format: secret, email: { [secret]: secret }, headers: { [secret]: secret }, event: secret, resource: secret, redirect_uris: [secret], query: `zoom=${secret}`, contacts: [secret], scope: secret })),
  'an array':                       (secret, path) => withBody(path, JSON_TYPE, JSON.stringify([secret, [secret]])),
  'a form of one word':             (secret, path) => withBody(path, FORM_TYPE, secret),
  'a repeated field':               (secret, path) => withBody(path, FORM_TYPE, `${secret}=1&${secret}=2`),
  'fields of the protocol':         (secret, path) => withBody(path, FORM_TYPE, new URLSearchParams({ grant_type: secret, client_id: secret, code: secret, token: secret, nonce: secret, decision: secret, name: secret }).toString()),
  'a broken escape':                (secret, path) => withBody(path, FORM_TYPE, `a=${secret}%zz`),
  'text':                           (secret, path) => withBody(path, { 'Content-Type': 'text/plain' }, secret),
};

/** Raw, because fetch normalizes addresses. Returns headers and body of the answer as text, if it is an error. */
async function errorTo(method: string, { path, headers, body }: Sent): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const { hostname, port } = new URL(origin);
  const asked = request({ hostname, port, path, method, headers, agent }, (response) => {
    if ((response.statusCode ?? 0) < 400) {
      // The stream of a store has no end.
      response.destroy();
      return resolve('');
    }
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () => resolve([...response.rawHeaders, Buffer.concat(chunks).toString()].join('\n')));
  });
  asked.on('error', reject);
  asked.end(body);
  return promise;
}

const named = {
  store_id: String(server.alpha),
  webhook_id: '1',
  event_id: '1',
  recovery_id: '1',
  invitation_id: '1',
  token: 'x',
  delivery_id: '1',
  user_id: '1',
  client_id: client.client_id,
};
const commerce = {
  collection: 'transactions',
  id: '1',
  relation: 'items',
  grant_id: '1',
  session_id: '1',
  passkey_id: '1',
  provider: 'Acme',
  identity_id: '1',
  rel: 'webhooks',
  resource_type: 'transaction',
  action: 'created',
  file: 'none.js',
  page: 'oauth',
};
const routes = routeTable(origin);

/** A token with as many scopes as possible, so that more is validated than the token. */
const headersOf = (kind: 'resource' | 'raw'): Record<string, string> =>
  kind === 'resource'
    ? { 'SERVICE-API-VERSION': '1', Authorization: `Bearer ${String(ofPlatform['access_token'])}` }
    : { Cookie: browser.cookie() ?? '', 'Sec-Fetch-Site': 'same-origin' };

const operations = routes.flatMap((route) => Object.keys(route.operations).map((method) => ({ route, method })));

/**
 * Each secret in each place at each operation; in part, the secrets take turns from operation to operation, and from place to place. Each
 * two of place, operation and secret still meet: what an operation repeats of a place does not depend on which secret is there.
 */
const SECRETS_AT_ONCE = amountOf('misplaced-secrets', { all: secrets.size, part: 1 });
const secretsFor = (place: number, operation: number): string[] =>
  [...secrets.values()].filter((_, index) => (index + place + operation) % secrets.size < SECRETS_AT_ONCE);

for (const [number, [place, at]] of Object.entries(places).entries()) {
  test(`a secret is repeated neither by an error nor in the log: ${place}`, async () => {
    logs.clear();
    const errors: string[] = [];
    for (const [index, { route, method }] of operations.entries()) {
      for (const secret of secretsFor(number, index)) {
        const sent = at(secret, fillIn(route, { ...named, ...commerce }));
        // A GET has no body.
        if (method === 'GET' && sent.body !== undefined) continue;
        const answer = await errorTo(method, { ...sent, headers: { ...headersOf(route.kind), ...sent.headers } });
        if (answer !== '') errors.push(`${method} ${route.path}\n${answer}`);
      }
    }
    assert.ok(errors.length > 0, 'some requests were rejected');
    assert.deepEqual(findSecrets(errors.join('\n'), secrets), []);
    assert.ok(logs.text().includes('/token') || logs.text().includes('logref'), 'the log has lines');
    assert.deepEqual(findSecrets(logs.text(), secrets), []);
  });
}

test('a secret in place of an id is not repeated', async () => {
  logs.clear();
  const answers: string[] = [];
  for (const secret of secrets.values()) {
    for (const route of routes.filter(({ path }) => path.includes(':'))) {
      for (const method of Object.keys(route.operations)) {
        const path = route.path.replaceAll(/:\w+/g, secret);
        const answer = await errorTo(method, { path, headers: headersOf(route.kind) });
        answers.push(`${method} ${route.path}\n${answer}`);
      }
    }
  }
  assert.deepEqual(findSecrets(answers.join('\n'), secrets), []);
  assert.ok(logs.text().includes('/stores/:store_id'), 'the log has the route');
  assert.deepEqual(findSecrets(logs.text(), secrets), []);
});

test('a malformed HTTP request is not repeated', async () => {
  logs.clear();
  for (const [name, secret] of secrets) {
    const answer = await errorTo('GET', { path: '/', headers: { 'X-Large': secret.repeat(2_000) } });
    assert.match(answer, /headers_too_large/);
    assert.deepEqual(findSecrets(answer, new Map([[name, secret]])), []);
  }
  assert.deepEqual(findSecrets(logs.text(), secrets), []);
});

test('the page about an unregistered address does not show a secret in it', async () => {
  const secret = client.client_secret;
  const misplaced = [{ client_id: secret }, { redirect_uri: `https://app.example.com/cb?secret=${secret}` }];
  for (const changes of misplaced) {
    const { status, text } = await browser.open(`/authorize?${new URLSearchParams(server.asking(changes)).toString()}`);
    assert.equal(status, 400);
    assert.match(text, /hal_cs_…/);
    assert.deepEqual(findSecrets(text, new Map([['the secret of the client', secret]])), []);
  }
});
