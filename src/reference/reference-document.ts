/** The reference for programs: one Document per relation, and the list of relations. */
import { homeOf } from '#http/root.ts';
import type { Endpoint } from '#http/relation.ts';
import { json, text, type Document, type Field, type Link, type Naming, type Value } from '#hypermedia/document.ts';
import { formats } from '#hypermedia/render.ts';
import { documentNames, titleOf } from './documents.ts';
import { comparableOf, type MethodDoc, type RelationDoc, type RelationDocs } from './relation-docs.ts';

const addressOfRelation = (rel: string, { baseUrl }: Naming): string => `${baseUrl}/rels/${rel}`;

/** Drops undefined members. */
const withoutUndefined = (value: Readonly<Record<string, Value | undefined>>): Value =>
  Object.fromEntries(Object.entries(value).filter((entry): entry is [string, Value] => entry[1] !== undefined));

const fieldValue = (field: Field): Value =>
  withoutUndefined({
    name: field.name,
    kind: field.kind,
    is_required: field.isRequired,
    is_multiple: field.isMultiple,
    choices: field.choices,
    min_length: field.minLength,
    max_length: field.maxLength,
    minimum: field.minimum,
    maximum: field.maximum,
    description: field.hint,
  });

const methodValue =
  (address: string) =>
  ({ method, title, summary, access, scopes, fields, modifiers, properties }: MethodDoc): Value => ({
    method,
    address,
    title,
    summary,
    access,
    ...(access === 'token' && { scopes }),
    fields: fields.map(fieldValue),
    modifiers,
    filters: comparableOf({ properties }),
  });

const endpointValue = ({ method, address, title, summary, access, specification, answers }: Endpoint): Value => ({
  method,
  address,
  title,
  summary,
  access,
  specification,
  answers,
});

const linkTo = ({ rel, title }: RelationDoc, naming: Naming): Link => ({
  rel: 'relation',
  href: addressOfRelation(rel, naming),
  title: `${rel}: ${title}`,
});

type RenderedExample = { mediaType: string; text: string };

function indented(source: string): string {
  try {
    return JSON.stringify(JSON.parse(source), null, 2);
  } catch {
    return indentedMarkup(source);
  }
}

/** Indents markup: one line per element, two blanks per level. */
function indentedMarkup(source: string): string {
  let depth = 0;
  return source
    .replaceAll(/>\s*</g, '>\n<')
    .split('\n')
    .map((line) => {
      if (line.startsWith('</')) depth -= 1;
      const indentedLine = '  '.repeat(Math.max(0, depth)) + line;
      const opens = /^<[^/?!]/.test(line) && !line.endsWith('/>') && !line.includes('</');
      if (opens) depth += 1;
      return indentedLine;
    })
    .join('\n');
}

/** Returns the example in each format for programs, indented. */
export function renderExamples(document: Document, naming: Naming): RenderedExample[] {
  return formats
    .filter(({ isPage }) => isPage !== true)
    .map(({ mediaTypes: [mediaType], render }) => ({ mediaType, text: indented(render(document, naming)) }));
}

const referenceLinks = (naming: Naming): Link[] => [
  { rel: 'relations', href: `${naming.baseUrl}/rels`, title: 'All relations' },
  { rel: 'docs', href: `${naming.baseUrl}/docs`, title: 'Documentation of this API', type: 'text/html' },
];

export function relationDocument(relationDoc: RelationDoc, naming: Naming): Document {
  const { rel, title, about, addressDocs, endpoints, example } = relationDoc;
  return {
    name: 'relation',
    title,
    links: [{ rel: 'self', href: addressOfRelation(rel, naming), title }, ...referenceLinks(naming)],
    embedded: [],
    properties: [
      text('rel', rel),
      text('title', title),
      text('about', about),
      json('methods', [
        ...addressDocs.flatMap(({ address, methodDocs }) => methodDocs.map(methodValue(address))),
        ...endpoints.map(endpointValue),
      ]),
      json('examples', example === undefined ? [] : renderExamples(example, naming)),
    ],
  };
}

export function relationsDocument({ byRel }: RelationDocs, naming: Naming): Document {
  return {
    name: 'relations',
    title: 'Relations',
    links: [
      { rel: 'self', href: `${naming.baseUrl}/rels`, title: 'All relations' },
      ...referenceLinks(naming).slice(1),
      ...[...byRel.values()].map((relationDoc) => linkTo(relationDoc, naming)),
    ],
    embedded: [],
    properties: [],
  };
}

/** Pages whose Documents are about more than their title. */
const OWN: ReadonlySet<string> = new Set(['receiving', 'events']);

const pageLink = (rel: string, name: string, { baseUrl }: Naming): Link => ({
  rel,
  href: `${baseUrl}/docs/${name}`,
  title: titleOf(name),
});

/** Returns the Document of `/docs`, for programs. */
export function docsDocument(naming: Naming): Document {
  return {
    name: 'docs',
    title: 'Documentation',
    links: [
      { rel: 'self', href: `${naming.baseUrl}/docs`, title: 'Documentation' },
      { rel: 'home', href: homeOf(naming.baseUrl), title: 'The API home' },
      { rel: 'relations', href: `${naming.baseUrl}/rels`, title: 'All relations' },
      { rel: 'receiving', href: `${naming.baseUrl}/docs/receiving`, title: 'How to receive webhooks' },
      { rel: 'event_types', href: `${naming.baseUrl}/docs/events`, title: 'All event types' },
      {
        rel: 'openapi',
        href: `${naming.baseUrl}/openapi.json`,
        title: 'The whole API as OpenAPI 3.1',
        type: 'application/json',
      },
      ...documentNames.flatMap((name) => (OWN.has(name) ? [] : [pageLink('docs_page', name, naming)])),
    ],
    embedded: [],
    properties: [],
  };
}

/** Returns the Document of a page of the documentation, for programs: they need no more than its title. */
export function docsPageDocument(name: string, naming: Naming): Document {
  return {
    name: 'docs_page',
    title: titleOf(name),
    links: [pageLink('self', name, naming), ...referenceLinks(naming)],
    embedded: [],
    properties: [text('title', titleOf(name))],
  };
}
