/** HTTP at every resource of the table: methods, the version header, where a token belongs, other origins. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAddresses } from '#http/requests.ts';
import { faultsOf, wrongInError } from './error-shape.ts';
import { listOf, startWalk, type Answer } from './every-resource.ts';

const { ask, places, readable } = await startWalk();

const OTHER_METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'TRACE', 'PROPFIND', 'LINK', 'QUERY', 'SEARCH'];
const EXPOSED = [
  'Location',
  'ETag',
  'Link',
  'Retry-After',
  'RateLimit',
  'RateLimit-Policy',
  'Preference-Applied',
  'WWW-Authenticate',
];

/** Headers that differ in each answer, or that GET and HEAD do not share. */
function shared({ headers }: Answer) {
  const { date, connection, ...rest } = headers;
  assert.ok(date !== undefined && connection === 'close');
  return rest;
}

function assertFault({ status, body }: Answer, wanted: { status: number; code: string; field?: string }): string {
  assert.equal(status, wanted.status, body);
  assert.equal(wrongInError(status, body), undefined, body);
  const [fault, ...others] = faultsOf(body);
  assert.deepEqual([fault?.['code'], fault?.['field'], others], [wanted.code, wanted.field, []]);
  return String(fault?.['message']);
}

function assertReadableElsewhere({ headers }: Answer): void {
  assert.equal(headers['access-control-allow-origin'], '*');
  assert.equal(headers['access-control-allow-credentials'], undefined);
  assert.deepEqual(listOf(headers['access-control-expose-headers']), EXPOSED.toSorted());
}

test('the walk covers the resources', () => assert.ok(readable.length >= 12, String(readable.length)));

for (const { path, at, bearer } of readable) {
  test(`HEAD answers the headers of GET and no body: ${path}`, async () => {
    const [get, head] = [await ask('GET', at, bearer('GET')), await ask('HEAD', at, bearer('GET'))];
    assert.equal(get.status, 200, get.body);
    assert.equal(head.status, 200);
    assert.deepEqual(shared(head), shared(get));
    assert.equal(Number(head.headers['content-length']), Buffer.byteLength(get.body));
    assert.equal(head.body, '');
  });
}

for (const { path, at, allow } of places) {
  test(`OPTIONS lists the methods without authentication: ${path}`, async () => {
    const answer = await ask('OPTIONS', at, { 'SERVICE-API-VERSION': null });
    assert.equal(answer.status, 200, answer.body);
    assert.deepEqual(listOf(answer.headers['allow']), allow);
    const { methods } = JSON.parse(answer.body) as { methods: Record<string, string> };
    assert.deepEqual(Object.keys(methods).toSorted(), allow);
    for (const [method, says] of Object.entries(methods)) assert.match(says, /\w{3,}/, method);
  });

  test(`an unsupported method is a 405 that lists the others: ${path}`, async () => {
    for (const method of OTHER_METHODS.filter((name) => !allow.includes(name))) {
      const answer = await ask(method, at);
      assert.equal(answer.status, 405, `${method}: ${answer.body}`);
      assert.deepEqual(listOf(answer.headers['allow']), allow, method);
      if (method === 'HEAD') continue;
      assert.match(assertFault(answer, { status: 405, code: 'method_not_allowed' }), new RegExp(method));
    }
  });

  test(`a script of another site may send requests and read the answers: ${path}`, async () => {
    const origin = { Origin: 'https://elsewhere.example', 'SERVICE-API-VERSION': null };
    const preflight = await ask('OPTIONS', at, { ...origin, 'Access-Control-Request-Method': 'GET' });
    assert.deepEqual([preflight.status, preflight.body], [204, '']);
    assert.deepEqual(listOf(preflight.headers['access-control-allow-methods']), allow);
    const wanted = ['Authorization', 'Content-Type', 'If-Match', 'If-None-Match', 'Idempotency-Key', 'Prefer'];
    const allowed = listOf(preflight.headers['access-control-allow-headers']);
    for (const name of [...wanted, 'SERVICE-API-VERSION']) assert.ok(allowed.includes(name), name);
    assertReadableElsewhere(preflight);
    // Errors too: otherwise the script would learn only that something failed.
    assertReadableElsewhere(await ask('TRACE', at, origin));
  });
}

for (const { path, at, methods, route, bearer } of places) {
  if (!route.isDocumentation) {
    test(`the version header is required: ${path}`, async () => {
      const field = 'SERVICE-API-VERSION';
      for (const method of methods) {
        const none = await ask(method, at, { ...bearer(method), [field]: null });
        assert.match(assertFault(none, { status: 400, code: 'version_required', field }), /SERVICE-API-VERSION: 1/);
        for (const version of ['2', '1.0', '01', '', '1, 1']) {
          const other = await ask(method, at, { ...bearer(method), [field]: version });
          assert.match(assertFault(other, { status: 400, code: 'version_unsupported', field }), /\b1\b/);
        }
      }
    });
  }

  test(`a token in the address is rejected, whatever the header contains: ${path}`, async () => {
    for (const method of methods) {
      const { Authorization: header } = bearer(method);
      const address = `${at}?access_token=${header.slice('Bearer '.length)}`;
      for (const headers of [{}, { Authorization: header }]) {
        const answer = await ask(method, address, headers);
        assertFault(answer, { status: 400, code: 'invalid_request', field: 'access_token' });
      }
    }
  });

  test(`a request without a token gets WWW-Authenticate, unless the resource is public: ${path}`, async () => {
    for (const method of methods) {
      const answer = await ask(method, at);
      if (route.operations[method]?.access === 'anyone') {
        assert.equal(answer.status, 200, answer.body);
      } else {
        assertFault(answer, { status: 401, code: 'invalid_token' });
        assert.match(answer.headers['www-authenticate'] ?? '', /^Bearer realm=/);
      }
    }
  });
}

test('of two paths that can match one address, one must be more general', () => {
  const addresses = createAddresses();
  const add = (path: string) => addresses.add({ path, allow: 'GET', cors: false });
  for (const path of ['/a/:x/:y', '/a/:x/c', '/a/b/c', '/a/b']) add(path);
  assert.throws(() => add('/a/b/:y'), /\/a\/b\/:y and \/a\/:x\/c can match one address/);
});
