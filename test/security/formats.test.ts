/** Content negotiation for every resource of the table and every format. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { XMLValidator } from 'fast-xml-parser';
import { formats } from '#hypermedia/render.ts';
import { wrongInError, faultsOf } from './error-shape.ts';
import { isStream, listOf, startWalk, type Answer } from './every-resource.ts';

const { ask, places, readable } = await startWalk();

type Offer = { mediaType: string; contentType: string; isPage: boolean };
const offers = formats.flatMap(({ mediaTypes, charset, isPage = false }): Offer[] =>
  mediaTypes.map((mediaType) => ({
    mediaType,
    contentType: charset === undefined ? mediaType : `${mediaType}; charset=${charset}`,
    isPage,
  })),
);
const [first = assert.fail(), ...others] = offers;

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
    ...(isPage ? ['Cookie'] : []),
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

for (const { route, path, at, methods, bearer } of places) {
  test(`an error is in the requested format: ${path}`, async () => {
    for (const offer of offers) {
      const answer = await ask('TRACE', at, { Accept: offer.mediaType });
      assert.equal(answer.status, 405);
      assertIn(answer, offer);
      assert.ok(answer.body.includes('TRACE is not possible here'), answer.body);
    }
  });

  test(`OPTIONS answers in every format: ${path}`, async () => {
    for (const offer of offers) {
      const answer = await ask('OPTIONS', at, { Accept: offer.mediaType });
      assert.equal(answer.status, 200);
      assertIn(answer, offer);
    }
  });

  test(`if no format is acceptable, a 406 lists the available ones, and nothing is done: ${path}`, async () => {
    for (const method of [...methods, 'OPTIONS']) {
      for (const accept of [
        'image/png',
        'application/hal',
        '*/*;q=0',
        `${first.mediaType};q=0.000`,
        'text/css, x/y;q=1',
      ]) {
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
