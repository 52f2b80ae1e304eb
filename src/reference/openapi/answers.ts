/**
 * Responses of an operation in OpenAPI: documents with the examples of their relations, and the common error format.
 */
import type { Operation } from '#http/operation.ts';
import type { Naming, Value } from '#hypermedia/document.ts';
import { formats } from '#hypermedia/render.ts';
import type { MethodDoc, RelationDoc } from '../relation-docs.ts';
import { ERROR_MEANINGS } from '../words.ts';
import type { Json } from './input.ts';

/** Returns the schema of each relation's document in the formats that have one, by relation name. */
export function schemasOf(relations: Iterable<RelationDoc>, naming: Naming): Json {
  const describe = formats.find(({ schema }) => schema !== undefined)?.schema;
  return Object.fromEntries(
    [...relations].flatMap(({ rel, example }) =>
      example === undefined || describe === undefined ? [] : [[rel, describe(example, naming)]],
    ),
  );
}

/** Returns the parsed JSON, or the text of another format. */
function read(text: string): Value {
  try {
    return JSON.parse(text) as Value;
  } catch {
    return text;
  }
}

/** Returns every example in every format for programs; responses refer to them. */
export function examplesOf(relations: Iterable<RelationDoc>, naming: Naming): Json {
  return Object.fromEntries(
    [...relations].flatMap(({ rel, example }) =>
      formats.flatMap(({ isPage, render }, at): [string, Json][] =>
        example === undefined || isPage ? [] : [[`${rel}.${at}`, { value: read(render(example, naming)) }]],
      ),
    ),
  );
}

const refer = (kind: string, name: string): Json => ({ $ref: `#/components/${kind}/${name}` });

function schemaOf(rels: readonly string[]): Json {
  const all = rels.map((rel) => refer('schemas', rel));
  const [only, ...others] = all;
  return only === undefined || others.length > 0 ? { anyOf: all } : only;
}

/** Returns the content of a response in every format, with the examples of its relations. */
const contentOf = (rels: readonly string[]): Json =>
  Object.fromEntries(
    formats.flatMap(({ mediaTypes, isPage, schema, outline }, at) =>
      mediaTypes.map((mediaType): [string, Json] => {
        if (isPage === true) return [mediaType, { schema: { type: 'string' } }];
        const outlined = outline === undefined ? {} : { schema: outline };
        if (rels.length === 0) return [mediaType, outlined];
        const examples = Object.fromEntries(rels.map((rel) => [rel, refer('examples', `${rel}.${at}`)]));
        return [mediaType, { ...outlined, ...(schema && { schema: schemaOf(rels) }), examples }];
      }),
    ),
  );

const header = (description: string): Json => ({ description, schema: { type: 'string' } });

export const responseHeaders: Json = {
  etag: header('The entity tag for If-None-Match and If-Match.'),
  link: header('The first, previous, next and last page (RFC 8288), as far as they exist.'),
  location: header('The address of the created resource.'),
  retryAfter: header('Seconds to wait before the next request.'),
  rateLimit: header('Remaining requests (r), and seconds until the limit is fully restored (t).'),
  rateLimitPolicy: header('Allowed requests (q) per number of seconds (w).'),
};

const limits: Json = {
  RateLimit: refer('headers', 'rateLimit'),
  'RateLimit-Policy': refer('headers', 'rateLimitPolicy'),
};

const success = (description: string, rels: readonly string[], headers: Json): Json => ({
  description,
  headers: { ...limits, ...headers },
  content: contentOf(rels),
});

/** Returns the response of an event stream, which has one media type. */
const stream = (description: string): Json => ({
  description,
  headers: limits,
  content: { 'text/event-stream': { schema: { type: 'string' } } },
});

/** The error response of every address. */
export const errorResponse: Json = {
  description: 'One entry per fault',
  headers: { ...limits, 'Retry-After': refer('headers', 'retryAfter') },
  content: contentOf(['errors']),
};

/** `makes` is the relation of the resource that a POST returns. */
type Context = {
  path: string;
  relations: readonly RelationDoc[];
  makes: RelationDoc | undefined;
  operation: Pick<Operation, 'input' | 'documentedInput' | 'isCreating' | 'takesKey' | 'isConditional' | 'isStream'>;
};

const errorStatusesOf = ({ method, access, fields }: MethodDoc, { path, operation }: Context): string[] => [
  '400',
  // An invalid token is rejected even if no token is required.
  '401',
  ...(access === 'anyone' ? [] : ['403']),
  ...(path.includes(':') ? ['404'] : []),
  '406',
  ...(method === 'POST' || operation.isStream ? ['409'] : []),
  ...(operation.isConditional ? ['412'] : []),
  ...(operation.input !== undefined || fields.length > 0 ? ['413', '415'] : []),
  ...(operation.takesKey ? ['422'] : []),
  '429',
  '503',
];

const relationsWithExample = (relations: readonly (RelationDoc | undefined)[]): string[] =>
  relations.flatMap((relation) => (relation?.example === undefined ? [] : [relation.rel]));

function successResponses(
  methodDoc: MethodDoc,
  { relations, makes, operation }: Context,
): [status: string, response: Json][] {
  const etag = { ETag: refer('headers', 'etag') };
  if (methodDoc.method === 'DELETE') return [['204', { description: 'Deleted', headers: limits }]];
  const { isCreating, documentedInput, isStream } = operation;
  if (isStream) return [['200', stream(methodDoc.title)]];
  const location = { Location: refer('headers', 'location') };
  const one = success('Created', relationsWithExample([makes]), { ...etag, ...location });
  if (isCreating) return [['201', one]];
  if (documentedInput !== undefined) {
    return [
      ['200', success('The results of an array, in the same order', relationsWithExample(relations), etag)],
      ['201', one],
    ];
  }
  if (methodDoc.method === 'POST')
    return [['2XX', success('Done, or accepted for processing', relationsWithExample([makes]), etag)]];
  const links = methodDoc.modifiers.includes('offset') ? { Link: refer('headers', 'link') } : {};
  return [['200', success(methodDoc.title, relationsWithExample(relations), { ...etag, ...links })]];
}

export function responsesOf(methodDoc: MethodDoc, context: Context): Json {
  const errors = errorStatusesOf(methodDoc, context).map((status): [string, Json] => [
    status,
    { ...refer('responses', 'errors'), description: ERROR_MEANINGS[status] ?? '' },
  ]);
  const hasEtag = methodDoc.method === 'GET' && !context.operation.isStream;
  const unchanged: [string, Json][] = hasEtag ? [['304', { description: 'Not modified' }]] : [];
  return Object.fromEntries([...successResponses(methodDoc, context), ...unchanged, ...errors]);
}
