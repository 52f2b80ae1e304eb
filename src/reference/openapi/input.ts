/** What an operation takes, in the words of OpenAPI: its own schema, and the parameters that the machinery reads. */
import type { TSchema } from 'typebox';
import { bodyMediaTypes } from '#http/bodies/body.ts';
import { API_VERSION } from '#http/caller.ts';
import type { Operation } from '#http/operation.ts';
import type { Value } from '#hypermedia/document.ts';
import type { Doing } from '../explained.ts';
import { aboutModifier } from '../words.ts';

export type Json = { readonly [name: string]: Value };

/** What inputs.ts says beside JSON Schema's own words is for forms. */
const HINTS: ReadonlySet<string> = new Set(['kind', 'isGenerated', 'isOfPlatform', 'isOtherName']);

/** A schema as plain JSON, without what is not of JSON Schema. */
export const plainSchema = (schema: TSchema): Json => {
  const text = JSON.stringify(schema, function drop(this: unknown, name: string, value: unknown) {
    // A property may be called like a hint; it is an object, and a hint is none.
    return HINTS.has(name) && typeof value !== 'object' ? undefined : value;
  });
  return JSON.parse(text) as Json;
};

/** What a body may be: what the operation's schema says, or what it tells where it judges by itself. */
export const bodySchema = ({ input, told }: Pick<Operation, 'input' | 'told'>): Json | undefined => {
  if (told === undefined) return input && plainSchema(input);
  const item = plainSchema(told.item);
  return { anyOf: [item, { type: 'array', items: item, minItems: 1, maxItems: told.itemsMax }] };
};

export const requestBody = (
  schema: Json,
  { mediaTypes = bodyMediaTypes, required = true }: { mediaTypes?: readonly string[]; required?: boolean } = {},
): Json => ({
  required,
  content: Object.fromEntries(mediaTypes.map((mediaType) => [mediaType, { schema }])),
});

/** `{webhook_id}` and its like; `given` are values that may stand there. */
export const pathParameters = (path: string, given: readonly Readonly<Record<string, string>>[]): Json[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => {
    const examples = [...new Set(given.flatMap((values) => values[name] ?? []))];
    const schema = examples.length === 0 ? { type: 'string' } : { type: 'string', examples };
    return { name, in: 'path', required: true, schema };
  });

const query = (name: string, description: string, schema: Json = { type: 'string' }): Json => ({
  name,
  in: 'query',
  description,
  schema,
});

const WHOLE: Readonly<Record<string, Json>> = {
  offset: { type: 'integer', minimum: 0, default: 0 },
  limit: { type: 'integer', minimum: 1, maximum: 300, default: 20 },
  order: { type: 'string', minLength: 1 },
  fields: { type: 'string', minLength: 1 },
  zoom: { type: 'string', minLength: 1 },
};

export const queryParameters = ({ modifiers, comparable }: Doing): Json[] => [
  ...modifiers.map((name) => query(name, aboutModifier(name) ?? '', WHOLE[name])),
  ...comparable.map((name) =>
    query(name, `Only items with this ${name}; :not, :lessthan and :greaterthan after the name compare otherwise.`),
  ),
];

const header = (name: string, description: string, schema: Json = { type: 'string' }, required = false): Json => ({
  name,
  in: 'header',
  description,
  required,
  schema,
});

/** The headers that the machinery reads; operations refer to them by these names. */
export const headerParameters = (versionHeader: string): Json => ({
  version: header(versionHeader, 'The version of the API.', { type: 'string', enum: [API_VERSION] }, true),
  ifNoneMatch: header('If-None-Match', 'The ETag that you have: 304 where it is still the one.'),
  ifMatch: header('If-Match', 'The ETag that you have read: 412 where it is not the one any more.'),
  idempotencyKey: header(
    'Idempotency-Key',
    'A name of yours for this request: what comes again under it is made once.',
    {
      type: 'string',
      maxLength: 255,
    },
  ),
});

const refer = (name: string): Json => ({ $ref: `#/components/parameters/${name}` });

export const headersFor = (
  method: Doing['method'],
  { isConditional, takesKey }: Pick<Operation, 'isConditional' | 'takesKey'>,
): Json[] => [
  refer('version'),
  ...(method === 'GET' ? [refer('ifNoneMatch')] : []),
  ...(isConditional ? [refer('ifMatch')] : []),
  ...(takesKey ? [refer('idempotencyKey')] : []),
];
