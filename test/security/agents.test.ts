/**
 * The endpoint for agents gives no caller more than the API: its tools reach resources of this server alone, with the token, the limits and the
 * address of the caller. Messages are of the version before 2026-07-28; test/clients/mcp.test.ts has both, with a foreign client.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExactNumber } from '#core/exact-number.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { startTestApp } from '../setup/app.ts';
import { standingClock } from '../setup/clock.ts';
import { freePort } from '../setup/free-port.ts';
import { letAppIn } from '../setup/grant-access.ts';
import { openSecondStore } from '../setup/second-store.ts';
import { send } from '../setup/send.ts';
import { changeHome, storesOf } from '../setup/suite-map.ts';
import { routeTable } from './route-table.ts';

const ENV = { MCP: '1', API_RATE_PER_SECOND: '1000', TRUSTED_PROXIES: '127.0.0.1' };
const app = await startTestApp({ roles: ['serve'], env: ENV });
const { baseUrl, storeId, sql, userId, clock } = app;
const second = await openSecondStore(app);

const JSON_RPC = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
type Headers = Record<string, string>;

/** Sends a message; `headers` in addition to those of every client. */
async function post(body: unknown, headers: Headers = { authorization: `Bearer ${app.token}` }, path = '/mcp') {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return send(baseUrl + path, { method: 'POST', headers: { ...JSON_RPC, ...headers }, body: text });
}

const callOf = (name: string, given: object) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: given },
});

/** Uses a tool; returns its texts, and whether it reports an error. */
async function use(name: string, given: object, token = app.token, headers: Headers = {}) {
  const { status, text } = await post(callOf(name, given), { authorization: `Bearer ${token}`, ...headers });
  assert.equal(status, 200, text);
  const { result } = JSON.parse(text) as { result?: { content: { text: string }[]; isError?: boolean } };
  const texts = result?.content.map((one) => one.text) ?? assert.fail(text);
  return { isError: result?.isError === true, text: texts.join('\n'), texts };
}

const webhooks = `/stores/${storeId}/webhooks`;
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };
const EVENTS = { event_resource: 'customer', format: 'json', encryption_key: 'a key' };

/** Lets another app into the store. */
async function letIn(name: string) {
  const details = { name, redirectUris: ['https://app.example.com/cb'], trusted: false, now: clock.now() };
  const made = await createClient(sql, details);
  const grant = { clientId: made.client_id, userId, storeId, now: clock.now() };
  return { ...made, token: (await letAppIn(app, grant)).access_token };
}

test('off by default', async () => {
  const other = await startTestApp({ roles: ['serve'] });
  for (const path of ['/mcp', '/.well-known/oauth-protected-resource/mcp']) {
    assert.equal((await send(other.baseUrl + path, { method: 'POST', headers: JSON_RPC, body: '{}' })).status, 404);
    assert.equal((await send(other.baseUrl + path)).status, 404);
  }
  assert.doesNotMatch((await send(`${other.baseUrl}/openapi.json`)).text, /\/mcp/);
  await other.stop();
});

test('the address that the instructions begin with can be read, also below a path', async () => {
  const port = await freePort();
  const env = { ...ENV, PORT: String(port), BASE_URL: `http://localhost:${port}/shop/api` };
  const { baseUrl: home, token, stop } = await startTestApp({ roles: ['serve'], env });
  const ask = (method: string, params: object) =>
    send(`${home}/mcp`, {
      method: 'POST',
      headers: { ...JSON_RPC, authorization: `Bearer ${token}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
  const clientInfo = { name: 'agent', version: '1' };
  const { text } = await ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  const [begin = ''] = /http[^ ,]+/.exec(text) ?? [];
  assert.equal(begin, home);
  assert.doesNotMatch((await ask('tools/call', { name: 'read', arguments: { href: begin } })).text, /isError/);
  await stop();
});

test('a message without a valid token is a 401, whose challenge leads to the metadata of the endpoint', async () => {
  const metadata = `${baseUrl}/.well-known/oauth-protected-resource/mcp`;
  const without: Headers[] = [{}, { cookie: 'halcyon=x' }, { authorization: 'Basic eDp5' }];
  for (const headers of without) {
    const { status, headers: answered } = await post(PING, headers);
    const challenge = `Bearer realm="halcyon", resource_metadata="${metadata}"`;
    assert.deepEqual([status, answered.get('www-authenticate')], [401, challenge]);
  }
  const { status, headers } = await post(PING, { authorization: 'Bearer x' });
  assert.equal(status, 401);
  assert.match(headers.get('www-authenticate') ?? '', new RegExp(`error="invalid_token".*"${metadata}"$`));
  assert.equal((await post(PING, {}, `/mcp?access_token=${app.token}`)).status, 400);
  const { resource, authorization_servers } = JSON.parse((await send(metadata)).text) as Record<string, unknown>;
  assert.deepEqual([resource, authorization_servers], [`${baseUrl}/mcp`, [baseUrl]]);
});

test('an app, a store or a grant that has ended or is suspended reaches nothing', async () => {
  const { token, ...made } = await letIn('Short');
  const status = async (): Promise<number> => (await post(PING, { authorization: `Bearer ${token}` })).status;
  assert.equal(await status(), 200);
  const change = (reason: string | null) =>
    changeHome(sql, (home) => home`update client set suspended_reason = ${reason} where client_id = ${made.client_id}`);
  await change('spam');
  assert.equal(await status(), 403);
  await change(null);
  assert.equal(await status(), 200);
  await send(`${baseUrl}/revoke`, {
    method: 'POST',
    body: new URLSearchParams({ token, client_id: made.client_id, client_secret: made.client_secret }),
  });
  assert.equal(await status(), 401);
});

test('only POST, from no script of another site, with one message of JSON', async () => {
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const { status, headers } = await send(`${baseUrl}/mcp`, { method });
    assert.deepEqual([status, headers.get('allow')], [405, 'POST, OPTIONS'], method);
  }
  const bearer = { authorization: `Bearer ${app.token}` };
  for (const origin of ['https://evil.example', 'null', `${baseUrl}.evil.example`, 'http://localhost:1'])
    assert.equal((await post(PING, { ...bearer, origin })).status, 403, origin);
  assert.equal((await post(PING, { ...bearer, origin: baseUrl })).status, 200);
  const preflight = {
    method: 'OPTIONS',
    headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
  };
  assert.equal((await send(`${baseUrl}/mcp`, preflight)).headers.get('access-control-allow-origin'), null);
  for (const body of [[PING, PING], [], '', '{', '{"jsonrpc":"2.0","jsonrpc":"2.0"}', '['.repeat(1_000), 'null', '1'])
    assert.equal((await post(body)).status, 400, JSON.stringify(body).slice(0, 40));
  assert.equal((await post(PING, { ...bearer, 'content-type': 'text/plain' })).status, 415);
  assert.equal((await post(`"${'x'.repeat(1024 * 1024)}"`)).status, 413);
  const { status, text } = await post(callOf('constructor', { href: '/' }));
  assert.equal(status, 200);
  assert.match(text, /"error":/, 'there is no such tool');
});

test('a message has few members, because each of them may be described as a fault', async () => {
  const initialize = (members: number) => {
    const experimental = Object.fromEntries(Array.from({ length: members }, (_, n) => [`member${n}`, n]));
    const params = {
      protocolVersion: '2025-06-18',
      clientInfo: { name: 'a', version: '1' },
      capabilities: { experimental },
    };
    return post({ jsonrpc: '2.0', id: 1, method: 'initialize', params });
  };
  assert.equal((await initialize(1_900)).status, 200);
  const { status, text } = await initialize(2_000);
  assert.equal(status, 400);
  assert.match(text, /"malformed_body".*more than 2000 members/s);
});

test('what an agent publishes keeps the digits of its numbers, and the trace of the message', async () => {
  const numbers = { total: '12.50', weight: '1e3', reference: '12345678901234567890', rate: '0.10' };
  const exact = Object.entries(numbers).map(([name, text]) => [name, new ExactNumber(text)]);
  const input = { event: 'transaction/created', resource: { id: 12_345, ...Object.fromEntries(exact) } };
  const published = { href: `/stores/${storeId}/events`, action: 'create', input };
  const trace = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'vendor=1' };
  assert.equal((await use('do', published, app.platformToken, trace)).isError, false);
  const { text } = await use('read', { href: `/stores/${storeId}/transactions/12345` });
  for (const [name, number] of Object.entries(numbers)) assert.match(text, new RegExp(`"${name}":${number}[,}]`));
  const [event] = await storesOf(sql)`select trace_context from event where resource_id = '12345'`;
  assert.equal(event?.['trace_context'], `${trace.traceparent} ${trace.tracestate}`);
});

test('no stream is opened, by the protocol or by a resource', async () => {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'agent', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const listen = { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: { _meta: meta, notifications: {} } };
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' };
  const { headers: answered, text } = await post(listen, { authorization: `Bearer ${app.token}`, ...headers });
  assert.match(answered.get('content-type') ?? '', /^application\/json/);
  assert.match(text, /"error":/);
  const made = await app.api('POST', webhooks, { body: { ...EVENTS, name: 'Pulled', is_held: true } });
  const { id } = (await made.json()) as { id: number };
  assert.match((await use('read', { href: `/webhooks/${id}/stream` })).text, /^HTTP 406/);
});

test('an address that is no resource of this server is refused before a request is sent', async () => {
  const { host } = new URL(baseUrl);
  const elsewhere = [
    'https://evil.example/',
    '//evil.example/stores',
    `http://${host}@evil.example/`,
    `http://x:y@${host}/`,
    `blob:${baseUrl}/stores`,
    'javascript:alert(1)',
    'file:///etc/passwd',
    `${baseUrl}.evil.example/`,
    String.raw`\\evil.example/`,
  ];
  const here = [
    '/mcp', '/%6dcp', '/mcp?x', '/mcp#x', '/x/../mcp', '/x/%2e%2e/mcp', '/stores/..//mcp', '/%2e%2e/mcp', '/mcp/',
    '//mcp', '/%zz', '/%252e%252e/mcp', '/sign-in', '/account', '/operator', '/operator/stores', '/authorize', '/token',
    '/revoke', '/introspect', '/register', '/llms.txt', '/openapi.json', '/health/ready', '/.well-known/oauth-authorization-server',
    `/stores/${storeId}/live`, `/stores/${storeId}/search`, `/${'x'.repeat(20_000)}`,
    `/?${'x'.repeat(20_000)}`,
  ]; // oxfmt-ignore
  for (const href of [...elsewhere, ...here]) {
    for (const tool of ['read', 'actions', 'do']) {
      const { isError, text } = await use(tool, tool === 'do' ? { href, action: 'create' } : { href });
      assert.ok(isError, `${tool} ${href}`);
      assert.match(text, /^\{"errors":\[\{"code":"invalid_value","message":"href must be/, `${tool} ${href}`);
    }
  }
  for (const { kind, path } of routeTable(baseUrl)) {
    const { text } = await use('read', { href: path.replaceAll(/:\w+/g, '1') });
    assert.equal(text.startsWith('{"errors":[{"code":"invalid_value","message":"href must be'), kind === 'raw', path);
  }
});

test('a resource is found by its address, by its path, and however that is written', async () => {
  const plain = await use('read', { href: webhooks });
  assert.equal(plain.isError, false);
  for (const href of [baseUrl + webhooks, `/x/..${webhooks}`, `${webhooks}#x`, webhooks.replace('w', '%77')])
    assert.equal((await use('read', { href })).isError, false, href);
  assert.match((await use('read', { href: `${webhooks}?limit=1&colour=red` })).text, /^HTTP 400\n.*"field":"colour"/s);
  assert.match((await use('read', { href: `${webhooks}?access_token=x` })).text, /^HTTP 400\n/);
  assert.match(
    (await use('read', { href: `/stores/${storeId}\r\nX-Evil: 1` })).text,
    /^HTTP 404\n/,
    'no header, but a path',
  );
});

test('a token reaches its store alone, and no more than its scope', async () => {
  for (const href of [`/stores/${second.storeId}`, `/stores/${second.storeId}/webhooks`])
    for (const tool of ['read', 'actions']) assert.match((await use(tool, { href })).text, /^HTTP 404\n/);
  const into = { href: `/stores/${second.storeId}/webhooks`, action: 'create', input: { ...EVENTS, name: 'x' } };
  assert.match((await use('do', into)).text, /^HTTP 404\n/);
  assert.equal((await use('do', into, second.token)).isError, false);
  const { token } = await letIn('Reader');
  await changeHome(
    sql,
    (home) =>
      home`update access_token set permissions = array['store_read'] where grant_id = (select max(id) from access_grant)`,
  );
  assert.equal((await use('read', { href: webhooks }, token)).isError, false);
  const events = { href: `/stores/${storeId}/grants`, action: 'create' };
  assert.match((await use('do', events, token)).text, /it offers: none/);
  assert.match((await use('do', { ...into, href: webhooks }, token)).text, /"field":"action"/);
  const own = await use('actions', { href: webhooks }, token);
  assert.equal(own.text, '[]');
  const sample = await use('read', { href: '/users' }, token);
  assert.match(sample.text, /^HTTP 403\n.*"error":"insufficient_scope"/s);
});

test('only what a resource offers is done, with the names and inputs of the API', async () => {
  for (const action of ['constructor', '__proto__', 'toString', 'delete', 'read', 'GET', ''])
    assert.match((await use('do', { href: webhooks, action })).text, /"field":"action"/, action);
  const wrong: object[] = [
    {}, { href: 1 }, { href: webhooks }, { href: webhooks, action: 'create', input: [] }, { href: webhooks, action: 'create', method: 'DELETE' },
    { href: webhooks, action: 'create', input: { ...EVENTS, name: 'x' }, headers: { authorization: 'x' } },
  ]; // oxfmt-ignore
  for (const given of wrong) assert.match((await use('do', given)).text, /^\{"errors":/, JSON.stringify(given));
  const polluted = '{"__proto__":{"name":"x"},"constructor":{"prototype":{}},"name":"x","format":"json"}';
  const message = JSON.stringify(callOf('do', { href: webhooks, action: 'create', input: 0 })).replace(
    ':0',
    `:${polluted}`,
  );
  assert.match((await post(message)).text, /HTTP 400.*__proto__.*constructor/s);
  const key = await use('do', {
    href: webhooks,
    action: 'create',
    input: { ...EVENTS, name: 'x' },
    idempotency_key: 'a\r\nb: c',
  });
  assert.match(key.text, /^HTTP 400\n.*"field":"Idempotency-Key"/s);
  const made = await use('do', { href: webhooks, action: 'create', input: { ...EVENTS, name: 'To delete' } });
  const { id } = JSON.parse(made.text) as { id: number };
  const changed = await use('do', { href: `/webhooks/${id}`, action: 'change', input: { name: 'Renamed' } });
  assert.match(changed.text, /"name":"Renamed"/);
  assert.deepEqual(await use('do', { href: `/webhooks/${id}`, action: 'delete' }), {
    isError: false,
    text: 'Done (HTTP 204)',
    texts: ['Done (HTTP 204)'],
  });
  assert.match((await use('read', { href: `/webhooks/${id}` })).text, /^HTTP 404\n/);
});

test('a session is not used, and what a tool does is in the audit with the address and program of the caller', async () => {
  const { token } = await letIn('Gone');
  const [grant] = await changeHome(sql, (home) => home<{ id: number }[]>`select max(id) as id from access_grant`);
  const caller = { 'x-forwarded-for': '203.0.113.7', 'user-agent': 'an agent', cookie: 'halcyon=x' };
  const done = await use('do', { href: `/grants/${grant?.id}`, action: 'delete' }, token, caller);
  assert.equal(done.isError, false, done.text);
  const rows = await changeHome(sql, (home) => home`select address, user_agent from audit order by id desc limit 1`);
  assert.deepEqual([...rows], [{ address: '203.0.113.7', user_agent: 'an agent' }]);
  assert.equal((await post(PING, { authorization: `Bearer ${token}` })).status, 401);
});

test('a long result is cut with advice', async () => {
  for (let at = 0; at < 40; at += 1) {
    const input = { ...EVENTS, name: '😀'.repeat(255) };
    const { isError, text } = await use('do', { href: webhooks, action: 'create', input });
    assert.equal(isError, false, text);
  }
  for (const offset of [0, 1]) {
    const { texts, isError } = await use('read', { href: `${webhooks}?limit=300&offset=${offset}` });
    const [cut = '', notice = ''] = texts;
    assert.deepEqual([isError, cut.length, cut.isWellFormed()], [false, 60_000, true]);
    assert.match(notice, /^Cut after 60000 of \d+ characters.*limit/);
  }
  assert.equal((await use('read', { href: `${webhooks}?limit=2` })).texts.length, 1);
});

test('each message, and each request of a tool, is taken from the rate limit of the grant', async () => {
  const standing = standingClock();
  const env = { MCP: '1', API_RATE_PER_SECOND: '1' };
  const limited = await startTestApp({ roles: ['serve'], env, clock: standing });
  const ask = () =>
    send(`${limited.baseUrl}/mcp`, {
      method: 'POST',
      headers: { ...JSON_RPC, authorization: `Bearer ${limited.token}` },
      body: JSON.stringify(callOf('read', { href: '/' })),
    });
  const first = await ask();
  assert.equal(first.status, 200);
  assert.doesNotMatch(first.text, /HTTP 429/);
  const { status, headers } = await ask();
  assert.deepEqual([status, headers.get('retry-after')], [429, '1']);
  standing.advance(1_000);
  const last = await ask();
  assert.equal(last.status, 200, 'one request is left, for the message');
  assert.match(last.text, /HTTP 429.*too_many_requests/s);
  await limited.stop();
});
