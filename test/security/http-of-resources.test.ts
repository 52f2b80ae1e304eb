/**
 * HTTP at every resource of the table: content negotiation (RFC 9110 §12), methods, the version header, where a token belongs, other
 * origins, and conditional requests (§13): no body is sent twice, and no change overwrites another.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { XMLValidator } from 'fast-xml-parser';
import { createAddresses } from '#http/requests.ts';
import type { Method } from '#http/route.ts';
import { formats } from '#hypermedia/render.ts';
import { faultsOf, wrongInError } from './error-shape.ts';
import { isStream, listOf, startWalk, type Answer, type Place } from './every-resource.ts';

const { app, ask, places, readable } = await startWalk();

/**
 * Returns one of the values, each resource another one: how a value is parsed does not depend on the resource. Each resource still gets
 * some value, and each value some resources.
 */
const inTurn = <T>(values: readonly [T, ...T[]], index: number): T => values[index % values.length] ?? values[0];
test('the walk covers the resources', () => assert.ok(readable.length >= 12, String(readable.length)));

// Content negotiation, for every format.

type Offer = { mediaType: string; contentType: string; isPage: boolean };
const offers = formats.flatMap(({ mediaTypes, charset, isPage = false }): Offer[] =>
  mediaTypes.map((mediaType) => ({
    mediaType,
    contentType: charset === undefined ? mediaType : `${mediaType}; charset=${charset}`,
    isPage,
  })),
);
const [first = assert.fail(), ...others] = offers;
const anyOffer = [first, ...others] as const;

function assertReadable(text: string, mediaType: string): void {
  if (mediaType.endsWith('json')) assert.equal(typeof JSON.parse(text), 'object');
  else if (mediaType.endsWith('xml')) assert.equal(XMLValidator.validate(text), true, text);
  else assert.match(text, /^<!doctype html>[\s\S]*<\/html>\s*$/i);
}

function assertIn({ headers, body }: Answer, { mediaType, contentType, isPage }: Offer): void {
  assert.equal(headers['content-type'], contentType);
  assert.deepEqual(listOf(headers['vary']), [
    'Accept',
    'Accept-Encoding',
    'Authorization',
    ...(isPage ? ['Cookie', 'Sec-Fetch-Dest'] : []),
  ]);
  assert.equal(headers['cache-control'], 'private, no-cache');
  assertReadable(body, mediaType);
}

test('there is more than one format', () => assert.ok(formats.length >= 2));

for (const { path, at, bearer } of readable) {
  test(`each format is answered under its own media type: ${path}`, async () => {
    for (const offer of offers) {
      // Browsers send no version header.
      const version = offer.isPage ? { 'SERVICE-API-VERSION': null } : {};
      const answer = await ask('GET', at, { ...bearer('GET'), ...version, Accept: offer.mediaType });
      assert.equal(answer.status, 200, answer.body);
      assertIn(answer, offer);
    }
  });

  test(`without an Accept header the answer is in the first format: ${path}`, async () => {
    for (const accept of [null, '', '*/*']) {
      const answer = await ask('GET', at, { ...bearer('GET'), Accept: accept });
      assert.equal(answer.headers['content-type'], first.contentType, String(accept));
    }
  });
}

const UNACCEPTABLE = [
  'image/png',
  'application/hal',
  '*/*;q=0',
  `${first.mediaType};q=0.000`,
  'text/css, x/y;q=1',
] as const;

for (const [index, { route, path, at, methods, bearer }] of places.entries()) {
  test(`an error is in the requested format: ${path}`, async () => {
    const offer = inTurn(anyOffer, index);
    const answer = await ask('TRACE', at, { Accept: offer.mediaType });
    assert.equal(answer.status, 405);
    assertIn(answer, offer);
    assert.ok(answer.body.includes('TRACE is not possible here'), answer.body);
  });

  test(`OPTIONS answers in every format: ${path}`, async () => {
    const offer = inTurn(anyOffer, index);
    const answer = await ask('OPTIONS', at, { Accept: offer.mediaType });
    assert.equal(answer.status, 200);
    assertIn(answer, offer);
  });

  test(`if no format is acceptable, a 406 lists the available ones, and nothing is done: ${path}`, async () => {
    for (const [number, method] of [...methods, 'OPTIONS'].entries()) {
      const accept = inTurn(UNACCEPTABLE, index + number);
      const headers = method === 'OPTIONS' ? {} : bearer(method as (typeof methods)[number]);
      const answer = await ask(method, at, { ...headers, Accept: accept });
      assert.equal(answer.status, 406, `${method} ${accept}: ${answer.body}`);
      assert.equal(answer.headers['content-type'], first.contentType);
      assert.equal(wrongInError(406, answer.body), undefined);
      const [fault] = faultsOf(answer.body);
      assert.deepEqual([fault?.['code'], fault?.['field']], ['not_acceptable', 'Accept']);
      const there = isStream(route) && method !== 'OPTIONS' ? [{ mediaType: 'text/event-stream' }] : offers;
      for (const { mediaType } of there) assert.ok(String(fault?.['message']).includes(mediaType), mediaType);
    }
  });
}

const home = readable.find(({ path }) => path === '/') ?? assert.fail('There is a home');
const typeFor = async (accept: string): Promise<string | undefined> =>
  (await ask('GET', home.at, { ...home.bearer('GET'), Accept: accept })).headers['content-type'];

for (const offer of others) {
  test(`weights are honoured: ${offer.mediaType} beside ${first.mediaType}`, async () => {
    const [a, b] = [first.mediaType, offer.mediaType];
    const wins: Readonly<Record<string, Offer>> = {
      [`${a}, ${b}`]: first,
      [`${b}, ${a}`]: first,
      [`${a};q=0.5, ${b}`]: offer,
      [`${a};q=0.899,${b};q=0.9`]: offer,
      [`${a} ; q=0.2 , ${b} ; q=0.1`]: first,
      [`${a};Q=0.1, ${b.toUpperCase()};q=1.000`]: offer,
      [`${a};q=0, ${b};q=0.001`]: offer,
      [`*/*;q=0.1, ${b};q=0.2`]: offer,
      [`*/*, ${b};q=0.2`]: first,
      [`${b};q=0.2, */*;q=0.1, ${a};q=0.3`]: first,
      [`image/png, ${b};q=0.1`]: offer,
      [`,, ${b},`]: offer,
      [`${b};charset=utf-8`]: offer,
    };
    for (const [accept, { contentType }] of Object.entries(wins))
      assert.equal(await typeFor(accept), contentType, accept);
  });
}

// Methods, the version header, tokens and other origins.

const OTHER_METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;
/** No resource has them. */
const FOREIGN_METHODS = ['TRACE', 'PROPFIND', 'LINK', 'QUERY', 'SEARCH'] as const;
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
  const [fault, ...more] = faultsOf(body);
  assert.deepEqual([fault?.['code'], fault?.['field'], more], [wanted.code, wanted.field, []]);
  return String(fault?.['message']);
}

function assertReadableElsewhere({ headers }: Answer): void {
  assert.equal(headers['access-control-allow-origin'], '*');
  assert.equal(headers['access-control-allow-credentials'], undefined);
  assert.deepEqual(listOf(headers['access-control-expose-headers']), EXPOSED.toSorted());
}

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

for (const [index, { path, at, allow }] of places.entries()) {
  test(`OPTIONS lists the methods without authentication: ${path}`, async () => {
    const answer = await ask('OPTIONS', at, { 'SERVICE-API-VERSION': null });
    assert.equal(answer.status, 200, answer.body);
    assert.deepEqual(listOf(answer.headers['allow']), allow);
    const { methods } = JSON.parse(answer.body) as { methods: Record<string, string> };
    assert.deepEqual(Object.keys(methods).toSorted(), allow);
    for (const [method, says] of Object.entries(methods)) assert.match(says, /\w{3,}/, method);
  });

  test(`an unsupported method is a 405 that lists the others: ${path}`, async () => {
    for (const method of [...OTHER_METHODS.filter((name) => !allow.includes(name)), inTurn(FOREIGN_METHODS, index)]) {
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

const OTHER_VERSIONS = ['2', '1.0', '01', '', '1, 1'] as const;

for (const [index, { path, at, methods, route, bearer }] of places.entries()) {
  if (!route.isDocumentation) {
    test(`the version header is required: ${path}`, async () => {
      const field = 'SERVICE-API-VERSION';
      for (const [number, method] of methods.entries()) {
        const none = await ask(method, at, { ...bearer(method), [field]: null });
        assert.match(assertFault(none, { status: 400, code: 'version_required', field }), /SERVICE-API-VERSION: 1/);
        const other = await ask(method, at, { ...bearer(method), [field]: inTurn(OTHER_VERSIONS, index + number) });
        assert.match(assertFault(other, { status: 400, code: 'version_unsupported', field }), /\b1\b/);
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

// Conditional requests. They are last, because they delete the resources.

const mediaTypes = formats.flatMap(({ mediaTypes: names }) => names);
const STRONG = /^"[\x21\x23-\x7e]+"$/;

const read = ({ at, bearer }: Place, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  ask('GET', at, { ...bearer('GET'), ...headers });
const tagOf = ({ headers }: Answer): string => headers['etag'] ?? '';

/** What proxies append to the tag of a response that they compress. */
const SUFFIXES = ['-gzip', '-br', '-zstd', '--gzip'];
const withSuffix =
  (suffix: string) =>
  (tag: string): string =>
    tag.replace(/"$/, `${suffix}"`);
const compressed = (tag: string): string[] => SUFFIXES.map((suffix) => withSuffix(suffix)(tag));

for (const [index, place] of readable.entries()) {
  test(`each format has a stable entity tag of its own, with which it is not sent again: ${place.path}`, async () => {
    const tags = new Set<string>();
    for (const accept of mediaTypes) {
      const { etag = '', vary, 'cache-control': caching } = (await read(place, { Accept: accept })).headers;
      assert.match(etag, STRONG);
      tags.add(etag);
      const method = inTurn(['GET', 'HEAD'], index + tags.size);
      const headers = { ...place.bearer('GET'), Accept: accept, 'If-None-Match': etag };
      const { status, body, headers: sent } = await ask(method, place.at, headers);
      assert.deepEqual([status, body, sent['content-type']], [304, '', undefined], `${method} ${accept}`);
      assert.deepEqual([sent['etag'], sent['vary'], sent['cache-control']], [etag, vary, caching]);
    }
    assert.equal(tags.size, mediaTypes.length);
  });

  test(`If-None-Match is a list of tags, weak ones too: ${place.path}`, async () => {
    const etag = tagOf(await read(place));
    const statusFor = async (tags: string) => (await read(place, { 'If-None-Match': tags })).status;
    const known = inTurn([`W/${etag}`, `"other", ${etag}`, '*', ` ${etag} ,W/"x"`, ...compressed(etag)], index);
    assert.equal(await statusFor(known), 304, known);
    const unknown = inTurn(['"other"', etag.slice(1, -1), '', 'W/', `"${etag}`], index);
    assert.equal(await statusFor(unknown), 200, unknown);
  });
}

const changing = (place: Place) => place.methods.filter((method) => ['PATCH', 'PUT', 'DELETE'].includes(method));
const changeable = readable.filter((place) => changing(place).length > 0);

/** A representation may be sent back: read-only members are ignored. */
async function change(place: Place, method: Method, ifMatch: string): Promise<Answer> {
  const body = method === 'DELETE' ? '' : (await read(place)).body;
  return ask(method, place.at, { ...place.bearer(method), 'If-Match': ifMatch }, body);
}

const conditionalActions = places.filter(({ route }) => route.operations.POST?.isConditional === true);

test('there are conditional actions', () => assert.ok(conditionalActions.length >= 2));

for (const { at, bearer, path } of conditionalActions) {
  test(`a stale If-Match is a 412: POST ${path}`, async () => {
    const answer = await ask('POST', at, { ...bearer('POST'), 'If-Match': '"stale"' });
    const [fault] = faultsOf(answer.body);
    assert.deepEqual([answer.status, fault?.['code'], fault?.['field']], [412, 'precondition_failed', 'If-Match']);
  });
}

test('there are resources that can be changed', () => assert.ok(changeable.length >= 3));

for (const place of changeable) {
  for (const method of changing(place)) {
    test(`a stale If-Match is a 412, and nothing is changed: ${method} ${place.path}`, async () => {
      const before = await read(place);
      const [, inside = ''] = /^"(.*)"$/.exec(tagOf(before)) ?? [];
      for (const stale of ['"stale"', `W/"0${inside}"`, inside, `"0${inside}"`, '"a", "b"', 'nonsense', '""', '']) {
        const answer = await change(place, method, stale);
        assert.equal(answer.status, 412, `${stale}: ${answer.body}`);
        assert.equal(wrongInError(412, answer.body), undefined, answer.body);
        const [fault] = faultsOf(answer.body);
        assert.deepEqual([fault?.['code'], fault?.['field']], ['precondition_failed', 'If-Match']);
      }
      const { headers, body } = await read(place);
      assert.deepEqual([headers['etag'], body], [tagOf(before), before.body]);
    });
  }

  for (const method of changing(place).filter((name) => name !== 'DELETE')) {
    test(`a change that changes nothing keeps tag, date and changelog: ${method} ${place.path}`, async () => {
      const countEntries = async () => (await app.sql`select from event where resource_type = 'changelog'`).length;
      const [before, entries] = [await read(place), await countEntries()];
      app.clock.advance(61_000);
      const isRoleRequired = place.path.includes('/members/');
      const bodies = [before.body, ...(method === 'PATCH' && !isRoleRequired ? ['{}'] : [])];
      for (const body of bodies) {
        const { status } = await ask(method, place.at, place.bearer(method), body);
        assert.equal(status, 200, body);
        const after = await read(place);
        assert.deepEqual([after.headers['etag'], after.body], [before.headers['etag'], before.body], body);
      }
      assert.equal(await countEntries(), entries);
    });

    test(`the tag of any format allows a change, and is stale then: ${method} ${place.path}`, async () => {
      for (const accept of mediaTypes) {
        const tag = tagOf(await read(place, { Accept: accept }));
        const changed = await change(place, method, tag);
        assert.equal(changed.status, 200, changed.body);
        const isOther = tagOf(await read(place, { Accept: accept })) !== tag;
        // If sending back changed nothing, the representation is still the same.
        assert.equal((await change(place, method, tag)).status, isOther ? 412 : 200);
      }
      for (const shape of [(tag: string) => `W/${tag}`, ...SUFFIXES.map(withSuffix)])
        assert.equal((await change(place, method, shape(tagOf(await read(place))))).status, 200, shape('""'));
      assert.equal((await change(place, method, '*')).status, 200);
      assert.equal((await change(place, method, `"other", ${tagOf(await read(place))}`)).status, 200);
    });
  }
}

// The deletion of a member, a store or a person deletes other resources with it, so they are last.
const OWNERS = ['/stores/:store_id/members/:user_id', '/stores/:store_id', '/users/:user_id'];
const removable = changeable
  .filter(({ methods }) => methods.includes('DELETE'))
  .toSorted((a, b) => OWNERS.indexOf(a.path) - OWNERS.indexOf(b.path));
for (const { path, at } of removable) {
  test(`a DELETE with the current tag succeeds, and the resource is gone: ${path}`, async () => {
    // Two addresses end the same access.
    await app.sql`update access_grant set date_revoked = null where id = ${Number(app.named['grant_id'])}`;
    // By the platform: the store's own app may have lost access by the DELETE before.
    const platform = { Authorization: `Bearer ${app.platformToken}` };
    const { headers } = await ask('GET', at, platform);
    const removed = await ask('DELETE', at, { ...platform, 'If-Match': headers['etag'] ?? null });
    assert.deepEqual([removed.status, removed.body], [204, '']);
    assert.equal((await ask('GET', at, platform)).status, 404);
  });
}
