import assert from 'node:assert/strict';
import { test } from 'node:test';
import { count, number, text, type Document } from './document.ts';
import { renderHal } from './hal.ts';

const naming = { baseUrl: 'https://api.example.com', relationPrefix: 'svc' };
const curies = [{ name: 'svc', href: 'https://api.example.com/rels/{rel}', templated: true }];
const leaf = (name: string): Document => ({ name, links: [], embedded: [], properties: [text('name', name)] });

const rendered = (document: Document): unknown => JSON.parse(renderHal(document, naming));

test('links carry the prefix of the API unless IANA registers the relation; a relation with several targets is an array', () => {
  const document: Document = {
    name: 'thing',
    links: [
      { rel: 'self', href: '/1', title: 'This' },
      { rel: 'store', href: '/s' },
      { rel: 'item', href: '/a' },
      { rel: 'item', href: '/b', templated: true },
    ],
    embedded: [],
    properties: [],
  };
  assert.deepEqual(rendered(document), {
    _links: {
      curies,
      self: { href: '/1', title: 'This' },
      'svc:store': { href: '/s' },
      'svc:item': [{ href: '/a' }, { href: '/b', templated: true }],
    },
  });
});

test('an embedded relation is an array, or one object if the relation has one target', () => {
  const document: Document = {
    name: 'thing',
    links: [],
    embedded: [
      { rel: 'items', documents: [leaf('a'), leaf('b')] },
      { rel: 'customer', single: true, documents: [leaf('c')] },
    ],
    properties: [],
  };
  assert.deepEqual(rendered(document), {
    _links: { curies },
    _embedded: { 'svc:items': [{ name: 'a' }, { name: 'b' }], 'svc:customer': { name: 'c' } },
  });
});

test('a count is a string, a number is a number', () => {
  const document: Document = {
    name: 'x',
    links: [],
    embedded: [],
    properties: [count('total_items', 7), number('limit', 20)],
  };
  assert.deepEqual(rendered(document), { _links: { curies }, total_items: '7', limit: 20 });
});
