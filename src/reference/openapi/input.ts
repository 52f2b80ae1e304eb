/** Request bodies and parameters of an operation in OpenAPI, with the values that they accept. */
import type { TSchema } from 'typebox';
import { operatorsOf, ORDERS_MAX, ZOOM_DEPTH, ZOOM_PATHS } from '#hypermedia/list-query.ts';
import type { Comparison } from '#core/listing.ts';
import { API_VERSION } from '#http/caller.ts';
import { mayBeMinimal, type Operation } from '#http/operation.ts';
import {
  isPaged,
  selectionOf,
  type Document,
  type Embedded,
  type JsonSchema,
  type Link,
  type Naming,
  type Property,
  type Value,
} from '#hypermedia/document.ts';
import { aboutModifier, comparableOf, type MethodDoc, type RelationDoc } from '../relation-docs.ts';
import { FIELDS_MAX, LIMITS, OFFSETS } from '#hypermedia/paging.ts';
import { formats } from '#hypermedia/render.ts';

export type Json = { readonly [name: string]: Value };

/** Hints of inputs.ts for forms, which are not keywords of JSON Schema, with their names in OpenAPI. */
const HINTS: ReadonlyMap<string, string> = new Map([
  ['kind', 'x-kind'],
  ['isGenerated', 'x-generated'],
  ['isOfPlatform', 'x-platform-only'],
  ['isSensitive', 'x-sensitive'],
  ['isOtherName', 'x-other-name'],
  ['isMain', 'x-main'],
  ['isMinor', 'x-minor'],
  ['isForPrograms', 'x-for-programs'],
  ['choices', 'x-choices'],
  // Compilers of TypeScript take a member with a `default` for one that must be sent.
  ['default', 'x-default'],
]);

/** Returns the schema of a member of a map: the one of `^`, which every name matches. */
const anyOfNames = (patterns: Value): Value => (patterns as Json)['^'] ?? true;

/**
 * Returns an enumeration with one type for each alternative: generators of clients name a value by its text, and flags accept "1",
 * 1 and true.
 */
function alternatives({ enum: values, ...others }: Json & { enum: readonly Value[] }): Json {
  const numbers = values.filter((value) => typeof value === 'number');
  if (values.every((value) => typeof value === 'string' || value === null)) return { enum: values, ...others };
  return {
    anyOf: [
      { type: 'string', enum: values.filter((value) => typeof value === 'string') },
      ...(numbers.length > 0 ? [{ type: 'integer', enum: numbers }] : []),
      ...(values.includes(true) ? [{ type: 'boolean' }] : []),
      ...(values.includes(null) ? [{ type: 'null' }] : []),
    ],
    ...others,
  };
}

/** Returns a schema as JSON Schema, whose hints for forms have the names of extensions (OpenAPI 3.1, §4.9). */
export function plainSchema(schema: TSchema): Json {
  const rename = (value: Value, isNames: boolean): Value => {
    if (Array.isArray(value)) return (value as readonly Value[]).map((one) => rename(one, false));
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([name, member]): [string, Value] => {
      // A property may have the name of a hint.
      if (isNames) return [name, rename(member, false)];
      // Compilers know maps by additionalProperties only.
      if (name === 'patternProperties') return ['additionalProperties', rename(anyOfNames(member), false)];
      return [HINTS.get(name) ?? name, rename(member, name === 'properties')];
    });
    const renamed: Json = Object.fromEntries(entries);
    return !isNames && Array.isArray(renamed['enum'])
      ? alternatives({ ...renamed, enum: renamed['enum'] as Value[] })
      : renamed;
  };
  return rename(JSON.parse(JSON.stringify(schema)) as Value, false) as Json;
}

/**
 * Returns the schema of a request body: the operation's own, or its documented one if the operation validates the body
 * itself.
 */
export function bodySchema({ input, documentedInput }: Pick<Operation, 'input' | 'documentedInput'>): Json | undefined {
  if (documentedInput === undefined) return input && plainSchema(input);
  const item = plainSchema(documentedInput.item);
  return { anyOf: [item, { type: 'array', items: item, minItems: 1, maxItems: documentedInput.itemsMax }] };
}

export function requestBody(
  schema: Json,
  { mediaTypes, required = true }: { mediaTypes: readonly string[]; required?: boolean },
): Json {
  return {
    required,
    content: Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema }])),
  };
}

/** Our own ids are integers. Those of publishers are texts, because a URL does not distinguish an integer from its text. */
const typeOfParameter = (name: string): Json => ({
  type: name.endsWith('_id') && name !== 'client_id' ? 'integer' : 'string',
});

const typedAs = ({ type }: Json, value: string): Value =>
  type === 'string' || !/^\d+$/.test(value) ? value : Number(value);

/** Returns the path parameters; `given` contains example values. */
export function pathParameters(path: string, given: readonly Readonly<Record<string, string>>[]): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    const type = typeOfParameter(name);
    const examples = [...new Set(given.flatMap((values) => values[name] ?? []))].map((value) => typedAs(type, value));
    return { name, in: 'path', required: true, schema: examples.length === 0 ? type : { ...type, examples } };
  });
}

const header = (name: string, description: string, schema: Json = { type: 'string' }, required = false): Json => ({
  name,
  in: 'header',
  description,
  required,
  schema,
});

/** Headers that src/http reads; operations refer to them by these names. */
export function headerParameters(versionHeader: string): Json {
  return {
    version: header(versionHeader, 'The version of the API.', { type: 'string', enum: [API_VERSION] }, true),
    ifNoneMatch: header('If-None-Match', 'A known ETag: 304 if it is still current.'),
    ifMatch: header('If-Match', 'A known ETag: 412 if it is no longer current.'),
    prefer: header('Prefer', 'return=minimal: the response has no body (RFC 7240); a 200 becomes a 204.'),
    idempotencyKey: header(
      'Idempotency-Key',
      'A key that you choose for this request: requests with the same key run once.',
      {
        type: 'string',
        maxLength: 255,
      },
    ),
  };
}

const refer = (name: string): Json => ({ $ref: `#/components/parameters/${name}` });

export function headersFor(
  method: MethodDoc['method'],
  operation: Pick<Operation, 'isConditional' | 'takesKey' | 'documentedInput'>,
): Json[] {
  const { isConditional, takesKey } = operation;
  return [
    refer('version'),
    ...(method === 'GET' ? [refer('ifNoneMatch')] : []),
    ...(mayBeMinimal(method, operation) ? [refer('prefer')] : []),
    ...(isConditional ? [refer('ifMatch')] : []),
    ...(takesKey ? [refer('idempotencyKey')] : []),
  ];
}

// The parameters of a query.

const text = (pattern: string, others: Json = {}): Json => ({ type: 'string', pattern: `^${pattern}$`, ...others });

/** Returns the pattern of 1 to `max` elements, separated by commas. */
const listPattern = (element: string, max: number): string => `${element}(?:,${element}){0,${max - 1}}`;

const choice = (names: readonly string[]): string => `(?:${names.join('|')})`;

/** A property that a publisher has chosen. */
const ANY_NAME = String.raw`[^/\s:,=\u0000-\u001f\u007f-\u009f][^\s:,=\u0000-\u001f\u007f-\u009f]{0,63}`;
const ANY_TEXT = text(String.raw`[^\u0000]*`, { maxLength: 1000 });

/** The days of every year from 1000 to 2999: of months of 28, 30 and 31 days, then of leap years. */
const DATE = choice([
  String.raw`[12]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])`,
  String.raw`[12]\d{3}-(?:0[13-9]|1[0-2])-(?:29|30)`,
  String.raw`[12]\d{3}-(?:0[13578]|1[02])-31`,
  String.raw`[12]\d(?:0[48]|[2468][048]|[13579][26])-02-29`,
  '(?:1[26]|2[048])00-02-29',
]);
const TIME = String.raw`(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:0\d|1[0-3]):?[0-5]\d)?)?`;

/** Values of filters, by how they compare. An empty one means "not set". */
const VALUES: Readonly<Record<Exclude<Comparison, 'none'>, Json>> = {
  text: ANY_TEXT,
  filterOnly: ANY_TEXT,
  number: text(String.raw`(?:-?\d{1,15}(?:\.\d{1,10})?)?`),
  boolean: { type: 'string', enum: ['1', '0', 'true', 'false', ''] },
  date: text(`(?:${DATE}${TIME})?`),
};

const numberIn = ({ fallback, min, max }: typeof LIMITS): Json => ({
  type: 'integer',
  minimum: min,
  maximum: max,
  default: fallback,
});

/** Returns the values of the parameters that select and sort. */
function modifierSchemas({ properties, isOpen, selects }: MethodDoc): Readonly<Record<string, Json>> {
  const comparable = comparableOf({ properties });
  const sortable = comparable.filter((name) => properties[name] !== 'filterOnly');
  const sorted = isOpen ? ANY_NAME : choice(sortable);
  return {
    offset: numberIn(OFFSETS),
    limit: numberIn(LIMITS),
    order: text(listPattern(`${sorted}(?: (?:asc|desc))?`, ORDERS_MAX)),
    fields: text(listPattern(selects.length === 0 ? ANY_NAME : choice(selects), FIELDS_MAX)),
    period: { type: 'string', enum: ['24h', '7d', '30d'], default: '24h' },
    links: text(listPattern('[a-z_]+', FIELDS_MAX)),
    dry_run: { type: 'string', enum: ['1'] },
    zoom: text(listPattern(`[a-z_]+(?::[a-z_]+){0,${ZOOM_DEPTH - 1}}`, ZOOM_PATHS)),
  };
}

const query = (name: string, description: string, schema: Json = { type: 'string' }): Json => ({
  name,
  in: 'query',
  description,
  schema,
});

export function queryParameters(methodDoc: MethodDoc): Json[] {
  const { modifiers, properties } = methodDoc;
  const schemas = modifierSchemas(methodDoc);
  return [
    ...modifiers.map((name) => query(name, aboutModifier(name) ?? '', schemas[name])),
    ...Object.entries(properties).flatMap(([name, comparison]) =>
      comparison === 'none'
        ? []
        : [
            query(
              name,
              `Only items with this ${name}; append ${operatorsOf(comparison)
                .map((operator) => `:${operator}`)
                .join(', ')} to the name for other comparisons.`,
              VALUES[comparison],
            ),
          ],
    ),
  ];
}

// Schemas of the documents of relations in OpenAPI.

/** Returns the first link of each relation, or all of the document where the relation has most. */
function mergeLinks(all: readonly (readonly Link[])[]): Link[] {
  const byRel = all.map((links) => Map.groupBy(links, ({ rel }) => rel));
  const rels = new Set(byRel.flatMap((links) => [...links.keys()]));
  return [...rels].flatMap((rel) => {
    const targets = byRel.map((links) => links.get(rel) ?? []);
    return targets.toSorted((a, b) => b.length - a.length)[0] ?? [];
  });
}

const firstOfEach = <T>(all: readonly T[], key: (one: T) => string): T[] =>
  [...new Map(all.toReversed().map((one) => [key(one), one])).values()].toReversed();

const absent = (property: Property): Property => ({ ...property, mayBeAbsent: true });

/** Returns a document with the members of all variants of a relation's document; those that one of them lacks may be absent. */
function mergeVariants(first: Document, variants: readonly Document[]): Document {
  const documents = [first, ...variants];
  const isEverywhere = ({ name }: Property): boolean =>
    documents.every(({ properties }) => properties.some((property) => property.name === name));
  const properties = firstOfEach(
    documents.flatMap((document) => document.properties),
    ({ name }) => name,
  );
  return {
    ...first,
    links: mergeLinks(documents.map(({ links }) => links)),
    embedded: firstOfEach(
      documents.flatMap(({ embedded }) => embedded),
      ({ rel }: Embedded) => rel,
    ),
    properties: properties.map((property) => (isEverywhere(property) ? property : absent(property))),
  };
}

/** Returns the name of the schema of a relation's document; `fields` of the request may select its members. */
export function schemaName({ rel, example }: RelationDoc, hasFields: boolean): string {
  return hasFields && example !== undefined && !isPaged(example) ? selectionOf(rel) : rel;
}

/** Returns the documentation of the response to an array as if it had a relation of its own. */
export function resultsOf(relation: RelationDoc): RelationDoc[] {
  const { rel, results } = relation;
  return results === undefined ? [] : [{ ...relation, rel: `${rel}_results`, example: results, variants: [] }];
}

/** Returns the schemas of the documents of all relations, and those that they refer to, by name. */
export function schemasOf(relations: Iterable<RelationDoc>, naming: Naming): Readonly<Record<string, JsonSchema>> {
  const examples = new Map(
    [...relations].flatMap(({ rel, example, variants }): [string, Document][] =>
      example === undefined ? [] : [[rel, mergeVariants(example, variants)]],
    ),
  );
  const ofDocuments = formats.flatMap(({ schemas }) =>
    [...examples].flatMap(([name, document]) => Object.entries(schemas?.(name, document, { naming, examples }) ?? {})),
  );
  return Object.fromEntries([...formats.flatMap(({ components = {} }) => Object.entries(components)), ...ofDocuments]);
}

const referredIn = (kind: string, value: unknown): string[] =>
  [...JSON.stringify(value).matchAll(new RegExp(`"#/components/${kind}/([^"]+)"`, 'g'))].map(([, name = '']) => name);

/** Returns the components of a kind, such as `schemas`, that `roots` refer to, directly or by each other. */
export function usedComponents(kind: string, components: Json, roots: unknown): Json {
  const used = new Set(referredIn(kind, roots));
  // The iteration of a set visits what is added meanwhile.
  for (const name of used) for (const other of referredIn(kind, components[name] ?? null)) used.add(other);
  return Object.fromEntries(Object.entries(components).filter(([name]) => used.has(name)));
}
