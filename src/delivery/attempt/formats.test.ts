import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Document, Value } from '#hypermedia/document.ts';
import { anyDocument } from '../../../test/setup/any-document.ts';
import { Flat, formats, membersOf, type Separator } from './formats.ts';

function flattened(document: Document, separator: Separator = '_'): string {
  const flat = new Flat(separator);
  flat.addAll(membersOf(document));
  return flat.text();
}
const withProperties = (properties: Record<string, Value>, embedded: Document['embedded'] = []): Document => ({
  name: 'transaction',
  links: [],
  embedded,
  properties: Object.entries(properties).map(([name, value]) => ({ name, value, kind: 'json' })),
});

/** Every number, string, boolean and null in it, at any depth, as JSON writes it. */
function scalarsIn(value: Value): string[] {
  if (typeof value !== 'object' || value === null) return [JSON.stringify(value)];
  return Object.values(value).flatMap(scalarsIn);
}
const scalarsOf = ({ properties, embedded }: Document): string[] => [
  ...properties.flatMap(({ value }) => scalarsIn(value)),
  ...embedded.flatMap(({ documents, single }) => {
    if (single !== true) return documents.flatMap(scalarsOf);
    return documents[0] === undefined ? ['null'] : scalarsOf(documents[0]);
  }),
];
const isFlat = (value: Value): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (Array.isArray(value) ? (value as Value[]) : Object.values(value)).every(
    (member) => Array.isArray(member) || typeof member !== 'object' || member === null || Array.isArray(value),
  );

test('flattening loses nothing and leaves no depth, for any names and values', () => {
  fc.assert(
    fc.property(anyDocument, fc.constantFrom<Separator>('_', '-'), (document, separator) => {
      const flat = JSON.parse(flattened(document, separator)) as Record<string, Value>;
      assert.deepEqual(scalarsIn(flat).toSorted(), scalarsOf(document).toSorted());
      assert.ok(isFlat(flat));
    }),
    { numRuns: 500 },
  );
});

test('the shallower member keeps its name, and a member that would get the same one is numbered', () => {
  const document = withProperties(
    { customer: { email: 'nested', email_2: 'taken' }, customer_email: 'own', items: 3, address: { geo: {} } },
    [
      { rel: 'customer', single: true, documents: [withProperties({ email: 'embedded' })] },
      { rel: 'items', documents: [withProperties({ name: 'Brush', size: { cm: 4 } })] },
    ],
  );
  assert.equal(
    flattened(document),
    '{"customer_email":"own","items":3,"items_2":[{"name":"Brush","size_cm":4}],"customer_email_2":"nested",' +
      '"customer_email_2_2":"taken","customer_email_3":"embedded"}',
  );
});

test('arrays stay arrays: each object in them is flattened by itself, other items are unchanged', () => {
  const document = withProperties({ tags: ['a', 1, true, null], mixed: [{ a: { b: 1 } }, [{ c: { d: 2 } }], 3] });
  assert.equal(flattened(document), '{"tags":["a",1,true,null],"mixed":[{"a_b":1},[{"c_d":2}],3]}');
});

test('a long name around thousands of members is not written thousands of times', () => {
  const members = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`m${index}`, index]));
  const text = flattened(withProperties({ ['n'.repeat(10_000)]: members }));
  assert.ok(text.length < 1_000_000, `${text.length} characters`);
  assert.equal(Object.keys(JSON.parse(text) as object).length, 5_000);
});

test('the item of a resource that is deleted or erased is archived, and no other', () => {
  const row = {
    storeId: 1,
    type: 'customer',
    resourceId: '7',
    version: 1,
    nonce: 1,
    baseUrl: '',
    body: '{"id":7}',
    traceContext: null,
  } as const;
  const naming = { baseUrl: 'http://localhost', relationPrefix: 'svc' };
  const archived = ['created', 'modified', 'deleted', 'data_requested', 'erased'].filter((action) => {
    const event = { ...row, id: 1, action, dateCreated: new Date(0) };
    const text = formats.partner_sitebuilder.write?.(withProperties({ id: 7 }), event, naming) ?? '{}';
    return (JSON.parse(text) as { isArchived: boolean }).isArchived;
  });
  assert.deepEqual(archived, ['deleted', 'erased']);
});
