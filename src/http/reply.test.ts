import assert from 'node:assert/strict';
import { test } from 'node:test';
import { etagOf, isKnown, unmodifiedSince, linkHeader } from './reply.ts';
import { collection } from '#hypermedia/paging.ts';

const document = { name: 'thing', version: 7, properties: [], links: [], embedded: [] };

test('a tag differs with the bytes, the media type and the version', () => {
  const tag = etagOf(document, 'a/b', 'bytes');
  assert.match(tag, /^"7-[\w-]+"$/);
  assert.notEqual(etagOf(document, 'a/b', 'byte'), tag);
  assert.notEqual(etagOf(document, 'a/c', 'bytes'), tag);
  assert.notEqual(etagOf({ ...document, version: 8 }, 'a/b', 'bytes'), tag);
});

const known: [ifNoneMatch: string | undefined, isIt: boolean][] = [
  [undefined, false],
  ['*', true],
  ['"7-x"', true],
  ['W/"7-x"', true],
  ['"a", "7-x"', true],
  ['"7-x-gzip"', true],
  ['W/"7-x--gzip"', true],
  ['"7-xgzip"', false],
  ['"7-y"', false],
  ['7-x', false],
  ['', false],
];
for (const [header, isIt] of known) {
  test(`If-None-Match: ${header} ${isIt ? 'matches' : 'does not match'} the tag "7-x"`, () => {
    assert.equal(isKnown(header, '"7-x"'), isIt);
  });
}

const matching: [ifMatch: string | undefined, mayGoOn: boolean][] = [
  [undefined, true],
  ['*', true],
  ['"7-anything"', true],
  ['"6-x", "7-x"', true],
  ['W/"7-x"', true],
  ['"7-x-gzip"', true],
  ['W/"6-x"', false],
  ['"6-x"', false],
  ['"77-x"', false],
  ['"-7"', false],
  ['"7"', false],
  ['garbage', false],
  ['', false],
];
for (const [header, mayGoOn] of matching) {
  test(`If-Match: ${header} ${mayGoOn ? 'allows' : 'refuses'} a change of version 7`, () => {
    const change = () => unmodifiedSince({ 'if-match': header })(7);
    if (mayGoOn) assert.doesNotThrow(change);
    else assert.throws(change, { status: 412 });
  });
}

for (const header of ['*', '"7-x"', 'W/"7-x"', '"6-x", "7-x"']) {
  test(`If-None-Match: ${header} refuses a change of an existing resource`, () => {
    assert.throws(() => unmodifiedSince({ 'if-none-match': header })(7), { status: 412 });
  });
}

test('If-None-Match of another version allows a change', () => {
  assert.doesNotThrow(() => unmodifiedSince({ 'if-none-match': '"6-x"' })(7));
});

const page = (offset: number, filter = '') =>
  collection({
    name: 'things',
    rel: 'things',
    title: 'Things',
    path: 'http://x.test/things',
    query: new URLSearchParams(`${filter}${offset === 0 ? '' : `offset=${offset}`}`),
    page: { offset, limit: 20 },
    total: 45,
    items: [],
  });

const rels = (header: string | undefined) => [...(header ?? '').matchAll(/rel="(\w+)"/g)].map(([, rel]) => rel);

test('the first page has no prev, the last no next, a page between has all', () => {
  assert.deepEqual(rels(linkHeader(page(0))), ['first', 'next', 'last']);
  assert.deepEqual(rels(linkHeader(page(20))), ['first', 'prev', 'next', 'last']);
  assert.deepEqual(rels(linkHeader(page(40))), ['first', 'prev', 'last']);
});

test('a link is written as RFC 8288 defines', () => {
  assert.match(linkHeader(page(20)) ?? '', /^<http:\/\/x\.test\/things\?offset=0>; rel="first", </);
});

test('if the header would be too long for many proxies, links are left out, next as the last one', () => {
  const relsWith = (length: number) => rels(linkHeader(page(20, `a=${'x'.repeat(length)}&`)));
  assert.equal(relsWith(900).length, 4);
  assert.deepEqual(relsWith(1_100), ['first', 'prev', 'next']);
  assert.deepEqual(relsWith(1_500), ['prev', 'next']);
  assert.deepEqual(relsWith(3_000), ['next']);
  assert.deepEqual(relsWith(5_000), []);
});

test('a document that is no collection has no Link header', () => {
  assert.equal(
    linkHeader({ name: 'thing', properties: [], links: [{ rel: 'self', href: '/' }], embedded: [] }),
    undefined,
  );
});
