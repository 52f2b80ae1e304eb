/**
 * Derives the JSON Schema (2020-12) of a Document in HAL JSON from the kinds of its properties and its example values.
 */
import { type Document, type Naming, type Property, type Value, nameOf } from './document.ts';

export type JsonSchema = { readonly [keyword: string]: Value };

const LINK: JsonSchema = {
  type: 'object',
  required: ['href'],
  properties: {
    href: { type: 'string' },
    title: { type: 'string' },
    type: { type: 'string' },
    templated: { type: 'boolean' },
  },
};

const objectOf = (properties: { readonly [name: string]: JsonSchema }): JsonSchema => ({ type: 'object', properties });

/** Returns the schema of a publisher's value according to the example. */
function schemaOfValue(value: Value): JsonSchema {
  if (value === null) return {};
  if (Array.isArray(value)) {
    const [first] = value as readonly Value[];
    return first === undefined ? { type: 'array' } : { type: 'array', items: schemaOfValue(first) };
  }
  return { type: [typeof value, 'null'] };
}

function schemaOfProperty({ kind, value, mayBeText }: Property): JsonSchema {
  if (mayBeText === true) return { type: ['integer', 'string', 'null'] };
  switch (kind) {
    case 'count':
      return { type: 'string', pattern: '^[0-9]+$' };
    case 'number':
    case 'progress':
      return { type: [Number.isInteger(value ?? 0) ? 'integer' : 'number', 'null'] };
    case 'boolean':
      return typeof value === 'string' ? { type: 'string', enum: ['1', '0'] } : { type: 'boolean' };
    case 'date':
      return { type: ['string', 'null'], description: 'ISO 8601, as 2026-11-20T16:05:03+0000' };
    case 'url':
      return { type: ['string', 'null'], format: 'uri' };
    case 'trend':
      return { type: 'array', items: { type: ['number', 'null'] } };
    case 'json':
    case 'money':
      return schemaOfValue(value);
    case 'text':
    case 'code':
    case 'secret':
    case 'enumeration':
      return { type: ['string', 'null'] };
  }
}

/** Returns the schema of a document. No member is required: unset values are null, but `fields` may omit members. */
export function halSchema(document: Document, naming: Naming): JsonSchema {
  const { properties, links, embedded } = document;
  const linked = [...Map.groupBy(links, ({ rel }) => rel)].map(([rel, { length }]): [string, JsonSchema] => [
    nameOf(rel, naming),
    length === 1 ? LINK : { type: 'array', items: LINK },
  ]);
  const within = embedded.map(({ rel, documents: [first], single }): [string, JsonSchema] => {
    const one = first === undefined ? { type: 'object' } : halSchema(first, naming);
    return [nameOf(rel, naming), single === true ? one : { type: 'array', items: one }];
  });
  return objectOf({
    ...(linked.length > 0 && { _links: objectOf(Object.fromEntries(linked)) }),
    ...(within.length > 0 && { _embedded: objectOf(Object.fromEntries(within)) }),
    ...Object.fromEntries(properties.map((property) => [property.name, schemaOfProperty(property)])),
  });
}
