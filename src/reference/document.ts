/** The reference for programs: each relation, and the list of them, as Documents. */
import { homeOf } from '#http/root.ts';
import type { Endpoint } from '#http/relation.ts';
import { json, text, type Document, type Field, type Link, type Naming, type Value } from '#hypermedia/document.ts';
import { writtenExamples } from './examples.ts';
import type { Doing, Explained, Explanations } from './explained.ts';

const addressOfRelation = (rel: string, { baseUrl }: Naming): string => `${baseUrl}/rels/${rel}`;

/** Without what is not said. */
const said = (value: Readonly<Record<string, Value | undefined>>): Value =>
  Object.fromEntries(Object.entries(value).filter((entry): entry is [string, Value] => entry[1] !== undefined));

const fieldValue = (field: Field): Value =>
  said({
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

const doingValue =
  (address: string) =>
  ({ method, title, summary, access, fields, modifiers, comparable }: Doing): Value => ({
    method,
    address,
    title,
    summary,
    access,
    fields: fields.map(fieldValue),
    modifiers,
    filters: comparable,
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

const linkTo = ({ rel, title }: Explained, naming: Naming): Link => ({
  rel: 'relation',
  href: addressOfRelation(rel, naming),
  title: `${rel}: ${title}`,
});

const upwards = (naming: Naming): Link[] => [
  { rel: 'relations', href: `${naming.baseUrl}/rels`, title: 'All relations' },
  { rel: 'docs', href: `${naming.baseUrl}/docs`, title: 'What this API can do, and how', type: 'text/html' },
];

export const relationDocument = (explained: Explained, naming: Naming): Document => {
  const { rel, title, about, places, endpoints, example } = explained;
  return {
    name: 'relation',
    title,
    links: [{ rel: 'self', href: addressOfRelation(rel, naming), title }, ...upwards(naming)],
    embedded: [],
    properties: [
      text('rel', rel),
      text('title', title),
      text('about', about),
      json('methods', [
        ...places.flatMap(({ address, doings }) => doings.map(doingValue(address))),
        ...endpoints.map(endpointValue),
      ]),
      json('examples', example === undefined ? [] : writtenExamples(example, naming)),
    ],
  };
};

export const relationsDocument = ({ byRel }: Explanations, naming: Naming): Document => ({
  name: 'relations',
  title: 'Relations',
  links: [
    { rel: 'self', href: `${naming.baseUrl}/rels`, title: 'All relations' },
    ...upwards(naming).slice(1),
    ...[...byRel.values()].map((explained) => linkTo(explained, naming)),
  ],
  embedded: [],
  properties: [],
});

/** What a program finds where people read how to begin. */
export const docsDocument = (naming: Naming): Document => ({
  name: 'docs',
  title: 'Documentation',
  links: [
    { rel: 'self', href: `${naming.baseUrl}/docs`, title: 'Documentation' },
    { rel: 'home', href: homeOf(naming.baseUrl), title: 'The API home' },
    { rel: 'relations', href: `${naming.baseUrl}/rels`, title: 'All relations' },
    {
      rel: 'openapi',
      href: `${naming.baseUrl}/openapi.json`,
      title: 'The whole API as OpenAPI 3.1',
      type: 'application/json',
    },
  ],
  embedded: [],
  properties: [],
});
