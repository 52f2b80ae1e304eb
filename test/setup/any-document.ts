/** Arbitrary documents with arbitrary text, to test renderers. */
import * as fc from 'fast-check';
import type { Document, Link, Property, Value } from '#hypermedia/document.ts';
import { anyText as anyCharacters } from './any-text.ts';

/** Any UTF-16: control characters, lone surrogates, markup and reserved words. */
const anyText = fc.oneof(
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)), maxLength: 8 }),
  anyCharacters({ maxLength: 8 }),
  fc.string({ unit: fc.constantFrom(...Array.from('<>&"\'=/!?-[] \t\r\n\0\ufffe\u{1f680}ab:;#x')), maxLength: 12 }),
  fc.constantFrom(']]>', '<!--', '-->', '&amp;', '&#1;', '<?xml?>', 'name', 'é'),
);

/** Names that are valid or almost valid in XML, or reserved there or in JavaScript. */
export const anyName = fc.oneof(
  fc.constantFrom('name', 'event-resource', 'xml', 'xmlns', 'member', 'resource', 'link', 'svc:items', '1st', 'ünit'),
  fc.constantFrom('__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '-', '.', '', '#text', ':@'),
  anyText,
);

/** Values nested up to three levels, whose members have such names. */
export function valueWith(name: fc.Arbitrary<string>): fc.Arbitrary<Value> {
  return fc.letrec<{ value: Value; array: Value; object: Value }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.oneof(anyText, anyText, fc.integer(), fc.double({ noNaN: true }), fc.boolean(), fc.constant(null)),
      tie('array'),
      tie('object'),
    ),
    array: fc.array(tie('value'), { maxLength: 3 }),
    object: fc.dictionary(name, tie('value'), { maxKeys: 3 }),
  })).value;
}

const anyProperty: fc.Arbitrary<Property> = fc.record({
  name: anyName,
  value: valueWith(anyName),
  kind: fc.constantFrom('text', 'number', 'count', 'json', 'date'),
});

const anyLink: fc.Arbitrary<Link> = fc.record(
  {
    rel: fc.oneof(fc.constantFrom('self', 'next', 'store'), anyText),
    href: anyText,
    title: anyText,
    type: anyText,
    templated: fc.constant(true as const),
  },
  { requiredKeys: ['rel', 'href'] },
);

const shallow = (embedded: Document['embedded']): fc.Arbitrary<Document> =>
  fc.record({
    name: anyText,
    links: fc.array(anyLink, { maxLength: 3 }),
    embedded: fc.constant(embedded),
    properties: fc.array(anyProperty, { maxLength: 4 }),
  });

export const anyDocument: fc.Arbitrary<Document> = fc
  .array(fc.record({ rel: anyText, single: fc.boolean(), documents: fc.array(shallow([]), { maxLength: 2 }) }), {
    maxLength: 2,
  })
  .chain(shallow);
