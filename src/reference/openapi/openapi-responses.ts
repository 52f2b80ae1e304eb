/**
 * Responses of an operation in OpenAPI: documents with the examples of their relations, and the common error format.
 */
import { mayBeMinimal, type Operation } from '#http/operation.ts';
import type { Naming, Value } from '#hypermedia/document.ts';
import { formats } from '#hypermedia/render.ts';
import { ERROR_MEANINGS, type MethodDoc, type RelationDoc } from '../relation-docs.ts';
import { resultsOf, schemaName, type Json } from './input.ts';

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

export function refer(kind: string, name: string): Json {
  return { $ref: `#/components/${kind}/${name}` };
}

/** `hasFields`: the request may select members of the documents with `fields`. */
type Shown = { relations: readonly RelationDoc[]; hasFields?: boolean };

function schemaOf({ relations, hasFields = false }: Shown): Json {
  const all = relations.map((relation) => refer('schemas', schemaName(relation, hasFields)));
  const [only, ...others] = all;
  return only === undefined || others.length > 0 ? { anyOf: all } : only;
}

/** Returns the content of a response in every format, with the examples of its relations. */
const contentOf = (shown: Shown): Json =>
  Object.fromEntries(
    formats.flatMap(({ mediaTypes, isPage, outline }, at) =>
      mediaTypes.map((mediaType): [string, Json] => {
        if (isPage === true) return [mediaType, { schema: { type: 'string' } }];
        const examples = shown.relations.map(({ rel }) => [rel, refer('examples', `${rel}.${at}`)] as const);
        return [mediaType, { schema: outline ?? schemaOf(shown), examples: Object.fromEntries(examples) }];
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

const success = (description: string, shown: Shown, headers: Json): Json => ({
  description,
  headers: { ...limits, ...headers },
  content: contentOf(shown),
});

/** Returns the response of an event stream, which has one media type. */
const stream = (description: string): Json => ({
  description,
  headers: limits,
  content: { 'text/event-stream': { schema: { type: 'string' } } },
});

/** Returns the error response of every address. */
export function errorResponse(errors: RelationDoc): Json {
  return {
    description: 'One entry per fault',
    headers: { ...limits, 'Retry-After': refer('headers', 'retryAfter') },
    content: contentOf({ relations: [errors] }),
  };
}

/** `makes` are the relations of the resources of which a POST returns one. */
type Context = {
  path: string;
  relations: readonly RelationDoc[];
  makes: readonly RelationDoc[];
  operation: Pick<Operation, 'input' | 'documentedInput' | 'statuses' | 'takesKey' | 'isConditional' | 'isStream'>;
};

const errorStatusesOf = ({ method, access, fields }: MethodDoc, { path, operation }: Context): string[] => [
  '400',
  // An invalid token is rejected even if no token is required.
  '401',
  ...(access === 'anyone' ? [] : ['403']),
  ...(path.includes(':') ? ['404'] : []),
  '406',
  // What a change asks for may depend on another resource, such as a client that only the operator changes.
  ...(method !== 'GET' || operation.isStream ? ['409'] : []),
  ...(path.includes(':collection/:id') && method !== 'DELETE' ? ['410'] : []),
  ...(operation.isConditional ? ['412'] : []),
  ...(method === 'GET' ? [] : ['413']),
  ...(operation.input !== undefined || fields.length > 0 ? ['415'] : []),
  ...(operation.takesKey ? ['422'] : []),
  '429',
  '503',
];

const DONE = { 200: 'Done', 201: 'Created', 202: 'Accepted for processing' };

const withExample = (relations: readonly RelationDoc[]): RelationDoc[] =>
  relations.filter(({ example }) => example !== undefined);

function successResponses(
  methodDoc: MethodDoc,
  { relations, makes, operation }: Context,
): [status: string, response: Json][] {
  const etag = { ETag: refer('headers', 'etag') };
  if (methodDoc.method === 'DELETE') return [['204', { description: 'Deleted', headers: limits }]];
  const { statuses, documentedInput, isStream } = operation;
  const shown = { relations: withExample(relations), hasFields: methodDoc.modifiers.includes('fields') };
  if (isStream) return [['200', stream(methodDoc.title)]];
  const location = { Location: refer('headers', 'location') };
  const one = success(DONE[201], { relations: withExample(makes) }, { ...etag, ...location });
  if (documentedInput !== undefined) {
    const results = { relations: relations.flatMap(resultsOf) };
    const array = success('The results of an array, in the same order', results, etag);
    return [['200', array], ...(statuses.includes(201) ? [['201', one] satisfies [string, Json]] : [])];
  }
  if (methodDoc.method === 'POST') {
    const results = makes.flatMap(resultsOf);
    const answered = { relations: results.length > 0 ? results : withExample(makes) };
    return statuses.map((status) => [`${status}`, status === 201 ? one : success(DONE[status], answered, etag)]);
  }
  const links = methodDoc.modifiers.includes('offset') ? { Link: refer('headers', 'link') } : {};
  return [['200', success(methodDoc.title, shown, { ...etag, ...links })]];
}

export function responsesOf(methodDoc: MethodDoc, context: Context): Json {
  const errors = errorStatusesOf(methodDoc, context).map((status): [string, Json] => [
    status,
    { ...refer('responses', 'errors'), description: ERROR_MEANINGS[status] ?? '' },
  ]);
  const successes = successResponses(methodDoc, context);
  const hasMinimal =
    mayBeMinimal(methodDoc.method, context.operation) && successes.some(([status]) => status === '200');
  const minimal: [string, Json][] = hasMinimal
    ? [['204', { description: 'Done, without a body because of Prefer: return=minimal', headers: limits }]]
    : [];
  const hasEtag = methodDoc.method === 'GET' && !context.operation.isStream;
  const unchanged: [string, Json][] = hasEtag ? [['304', { description: 'Not modified' }]] : [];
  return Object.fromEntries([...successes, ...minimal, ...unchanged, ...errors]);
}
