/** Headers and checks of every page, form and endpoint in the table of routes, including new ones. */
import assert from 'node:assert/strict';
import { request, type IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import type { RawEndpoint, Route } from '#http/route.ts';
import { createBrowser, PASSWORD, startAuthorizationServer } from './oauth-server.ts';
import { newApp } from './page-forms.ts';
import { fillIn, routeTable } from './route-table.ts';

const server = await startAuthorizationServer();
const { origin, browser, ada } = server;
const { clientId, path: ownApp } = await newApp(browser);
const cookie = browser.cookie() ?? '';

const named = {
  client_id: clientId,
  grant_id: '1',
  session_id: '1',
  passkey_id: '1',
  provider: 'Acme',
  identity_id: '1',
  resource_type: 'transaction',
  action: 'created',
  store_id: '1',
  webhook_id: '1',
  event_id: '1',
  user_id: '1',
  recovery_id: '1',
  delivery_id: '1',
  file: '1',
  page: 'oauth',
  invitation_id: '1',
  token: 'x',
};
const commerce = { collection: 'transactions', id: '1', relation: 'items', rel: 'webhooks' };
const pathOf = (route: Route): string => fillIn(route, { ...named, ...commerce });
const routes = routeTable(origin);
const pages = routes.filter((route): route is RawEndpoint => route.kind === 'raw' && route.sameOriginPosts);
const LOGO = '/clients/:client_id/logo';
const FILES = new Set([LOGO, '/favicon.ico', '/robots.txt', '/llms.txt', '/docs/:page.md', '/assets/:file']);

type Answer = { status: number; headers: IncomingHttpHeaders };
function ask(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const asked = request(origin + path, { method, headers, agent: false }, (response) => {
    resolve({ status: response.statusCode ?? 0, headers: response.headers });
    response.resume();
  });
  // The server may close the connection before a too large request is sent completely.
  asked.on('error', reject);
  asked.end(body);
  return promise;
}

function assertGuarded({ status, headers }: Answer, what: string): void {
  assert.equal(headers['cache-control'], 'no-store', what);
  assert.equal(headers['referrer-policy'], status === 303 ? 'no-referrer' : 'same-origin', what);
  assert.equal(headers['x-content-type-options'], 'nosniff', what);
  assert.equal(headers['access-control-allow-origin'], undefined, what);
  if (status === 303) return;
  assert.match(headers['content-type'] ?? '', /^text\/html; charset=utf-8$/, what);
  const policy = String(headers['content-security-policy']);
  for (const part of ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"])
    assert.ok(policy.includes(part), `${what}: ${policy}`);
  assert.doesNotMatch(policy.replace("; script-src 'self';", ';'), /script-src|unsafe|\*/, what);
  assert.equal(headers['x-frame-options'], 'DENY', what);
}

test('there are pages', () => assert.ok(pages.length >= 15, String(pages.length)));

for (const route of pages.filter(({ path }) => !FILES.has(path))) {
  test(`no answer of a page can be framed, cached, sniffed or scripted, or sends a referrer: ${route.path}`, async () => {
    const path = pathOf(route);
    for (const headers of [{ Cookie: cookie }, {}]) {
      for (const method of ['GET', 'HEAD', 'PUT']) assertGuarded(await ask(method, path, headers), method);
      const own = { ...headers, 'Sec-Fetch-Site': 'same-origin', 'Content-Type': 'text/plain' };
      assertGuarded(await ask('POST', path, own, 'x'), 'POST');
      assertGuarded(await ask('POST', path, headers, 'x'), 'POST from elsewhere');
    }
  });
}

/** By what a browser sends: a post from another origin, and one without an origin. */
const elsewhere: readonly Record<string, string>[] = [
  { 'Sec-Fetch-Site': 'cross-site' },
  { 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'none' },
  { 'Sec-Fetch-Site': 'cross-site', Origin: 'http://auth.example.test' },
  { Origin: 'https://evil.example' },
  { Origin: 'null' },
  {},
];
for (const route of pages.filter(({ operations }) => 'POST' in operations)) {
  test(`a post from another origin is rejected before its body is read: ${route.path}`, async () => {
    for (const from of elsewhere) {
      const headers = { Cookie: cookie, 'Content-Type': 'application/x-www-form-urlencoded', ...from };
      const { status } = await ask('POST', pathOf(route), headers, 'decision=allow');
      assert.equal(status, 403, JSON.stringify(from));
    }
  });
}

test('after a post with a secret the browser is redirected by 303, which repeats no body', async () => {
  const person = createBrowser(origin);
  const signedIn = await person.post('/sign-in', { email: ada, password: PASSWORD, return_to: ownApp });
  assert.deepEqual([signedIn.status, signedIn.location], [303, ownApp]);
  for (const decision of ['allow', 'deny'])
    assert.equal((await person.consent(server.asking(), { decision })).status, 303, decision);
  assert.equal((await person.post('/sign-out', {})).status, 303);
});

for (const { path, operations } of routes) {
  for (const method of Object.keys(operations)) {
    test(`100 KB of headers are a 431: ${method} ${path}`, async () => {
      const large = { Cookie: cookie, 'Sec-Fetch-Site': 'same-origin', 'X-Large': 'a'.repeat(102_400) };
      const { status } = await ask(method, fillIn({ path }, { ...named, ...commerce }), large);
      assert.equal(status, 431);
    });
  }
}
