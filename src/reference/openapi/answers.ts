/** What an operation answers, in the words of OpenAPI: documents with the examples of their relations, and the one shape of errors. */
import type { Operation } from '#http/operation.ts';
import type { Naming, Value } from '#hypermedia/document.ts';
import { formats } from '#hypermedia/render.ts';
import type { Doing, Explained } from '../explained.ts';
import { FAULTS } from '../words.ts';
import type { Json } from './input.ts';

/** The schema of each relation's document in the formats that have one, under the relation's name. */
export const schemasOf = (relations: Iterable<Explained>, naming: Naming): Json => {
  const describe = formats.find(({ schema }) => schema !== undefined)?.schema;
  return Object.fromEntries(
    [...relations].flatMap(({ rel, example }) =>
      example === undefined || describe === undefined ? [] : [[rel, describe(example, naming)]],
    ),
  );
};

/** As a program reads it, where it is JSON; else the text. */
const read = (text: string): Value => {
  try {
    return JSON.parse(text) as Value;
  } catch {
    return text;
  }
};

/** Every example in every format that programs read, once: answers refer to them. */
export const examplesOf = (relations: Iterable<Explained>, naming: Naming): Json =>
  Object.fromEntries(
    [...relations].flatMap(({ rel, example }) =>
      formats.flatMap(({ isPage, render }, at): [string, Json][] =>
        example === undefined || isPage ? [] : [[`${rel}.${at}`, { value: read(render(example, naming)) }]],
      ),
    ),
  );

const refer = (kind: string, name: string): Json => ({ $ref: `#/components/${kind}/${name}` });

const schemaOf = (rels: readonly string[]): Json => {
  const all = rels.map((rel) => refer('schemas', rel));
  const [only, ...others] = all;
  return only === undefined || others.length > 0 ? { anyOf: all } : only;
};

/** The same in every format: what each of the relations shows there, as far as any has an example. */
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

export const answerHeaders: Json = {
  etag: header('What If-None-Match and If-Match are compared with.'),
  link: header('The neighbours of this page (RFC 8288), as far as there are any.'),
  location: header('The address of what was made.'),
  retryAfter: header('How many seconds to wait.'),
  rateLimit: header('How many requests are left (r), and in how many seconds all of them are (t).'),
  rateLimitPolicy: header('How many requests (q) may be made in how many seconds (w).'),
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

/** Goes on without end, in the one form that is made for that. */
const stream = (description: string): Json => ({
  description,
  headers: limits,
  content: { 'text/event-stream': { schema: { type: 'string' } } },
});

/** Every error of every address. */
export const errorAnswer: Json = {
  description: 'One entry for each fault',
  headers: { ...limits, 'Retry-After': refer('headers', 'retryAfter') },
  content: contentOf(['errors']),
};

/** `makes` is what a POST answers with. */
type About = {
  path: string;
  relations: readonly Explained[];
  makes: Explained | undefined;
  operation: Pick<Operation, 'input' | 'told' | 'isCreating' | 'takesKey' | 'isConditional' | 'isStream'>;
};

const faultsOf = ({ method, access, fields }: Doing, { path, operation }: About): string[] => [
  '400',
  // A token that counts no more is refused where none is needed, too.
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

const shownOf = (relations: readonly (Explained | undefined)[]): string[] =>
  relations.flatMap((relation) => (relation?.example === undefined ? [] : [relation.rel]));

const goodAnswers = (doing: Doing, { relations, makes, operation }: About): [status: string, answer: Json][] => {
  const etag = { ETag: refer('headers', 'etag') };
  if (doing.method === 'DELETE') return [['204', { description: 'It is gone', headers: limits }]];
  const { isCreating, told, isStream } = operation;
  if (isStream) return [['200', stream(doing.title)]];
  const location = { Location: refer('headers', 'location') };
  const one = success('What was made', shownOf([makes]), { ...etag, ...location });
  if (isCreating) return [['201', one]];
  if (told !== undefined) {
    return [
      ['200', success('What was made of an array, in its order', shownOf(relations), etag)],
      ['201', one],
    ];
  }
  if (doing.method === 'POST') return [['2XX', success('It is done, or under way', shownOf([makes]), etag)]];
  const links = doing.modifiers.includes('offset') ? { Link: refer('headers', 'link') } : {};
  return [['200', success(doing.title, shownOf(relations), { ...etag, ...links })]];
};

export const answersOf = (doing: Doing, about: About): Json => {
  const faults = faultsOf(doing, about).map((status): [string, Json] => [
    status,
    { ...refer('responses', 'errors'), description: FAULTS[status] ?? '' },
  ]);
  const isKnowable = doing.method === 'GET' && !about.operation.isStream;
  const unchanged: [string, Json][] = isKnowable ? [['304', { description: 'You have it already' }]] : [];
  return Object.fromEntries([...goodAnswers(doing, about), ...unchanged, ...faults]);
};
