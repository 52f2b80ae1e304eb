/** Conditional requests (RFC 9110 §13) to every resource of the table: no body is sent twice, and no change overwrites another. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Method } from '#http/route.ts';
import { formats } from '#hypermedia/render.ts';
import { faultsOf, wrongInError } from './error-shape.ts';
import { startWalk, type Answer, type Place } from './every-resource.ts';

const { app, ask, places, readable } = await startWalk();

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

for (const place of readable) {
  test(`each format has an entity tag of its own, which is stable: ${place.path}`, async () => {
    const tags = new Set<string>();
    for (const accept of mediaTypes) {
      const [once, again] = [await read(place, { Accept: accept }), await read(place, { Accept: accept })];
      assert.match(tagOf(once), STRONG);
      assert.equal(tagOf(again), tagOf(once));
      tags.add(tagOf(once));
    }
    assert.equal(tags.size, mediaTypes.length);
  });

  test(`an unmodified representation is not sent again, in any format: ${place.path}`, async () => {
    for (const accept of mediaTypes) {
      const { etag = '', vary, 'cache-control': caching } = (await read(place, { Accept: accept })).headers;
      for (const method of ['GET', 'HEAD']) {
        const headers = { ...place.bearer('GET'), Accept: accept, 'If-None-Match': etag };
        const { status, body, headers: sent } = await ask(method, place.at, headers);
        assert.deepEqual([status, body, sent['content-type']], [304, '', undefined], `${method} ${accept}`);
        assert.deepEqual([sent['etag'], sent['vary'], sent['cache-control']], [etag, vary, caching]);
      }
    }
  });

  test(`If-None-Match is a list of tags, weak ones too: ${place.path}`, async () => {
    const etag = tagOf(await read(place));
    const statusFor = async (tags: string) => (await read(place, { 'If-None-Match': tags })).status;
    for (const known of [`W/${etag}`, ...compressed(etag), `"other", ${etag}`, '*', ` ${etag} ,W/"x"`])
      assert.equal(await statusFor(known), 304, known);
    for (const unknown of ['"other"', etag.slice(1, -1), '', 'W/', `"${etag}`])
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
    // By the platform: the store's own app may have lost access by the DELETE before.
    const platform = { Authorization: `Bearer ${app.platformToken}` };
    const { headers } = await ask('GET', at, platform);
    const removed = await ask('DELETE', at, { ...platform, 'If-Match': headers['etag'] ?? null });
    assert.deepEqual([removed.status, removed.body], [204, '']);
    assert.equal((await ask('GET', at, platform)).status, 404);
  });
}
