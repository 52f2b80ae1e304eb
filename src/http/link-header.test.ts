import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collection } from '#hypermedia/page.ts';
import { linkHeader } from './reply.ts';

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

test('the first page has no prev, the last no next, one between has all', () => {
  assert.deepEqual(rels(linkHeader(page(0))), ['first', 'next', 'last']);
  assert.deepEqual(rels(linkHeader(page(20))), ['first', 'prev', 'next', 'last']);
  assert.deepEqual(rels(linkHeader(page(40))), ['first', 'prev', 'last']);
});

test('a link is written as RFC 8288 has it', () => {
  assert.match(linkHeader(page(20)) ?? '', /^<http:\/\/x\.test\/things\?offset=0>; rel="first", </);
});

test('where all would be too long for many a proxy, next is the last that is left out', () => {
  const relsWith = (length: number) => rels(linkHeader(page(20, `a=${'x'.repeat(length)}&`)));
  assert.equal(relsWith(900).length, 4);
  assert.deepEqual(relsWith(1_100), ['first', 'prev', 'next']);
  assert.deepEqual(relsWith(1_500), ['prev', 'next']);
  assert.deepEqual(relsWith(3_000), ['next']);
  assert.deepEqual(relsWith(5_000), []);
});

test('what is no collection has no such header', () => {
  assert.equal(
    linkHeader({ name: 'thing', properties: [], links: [{ rel: 'self', href: '/' }], embedded: [] }),
    undefined,
  );
});
