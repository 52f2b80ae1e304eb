/** Renders Siren (github.com/kevinswiber/siren). Builds a tree for `JSON.stringify`, for the reason in hal.ts. */
import {
  addressOfRelation,
  isPaged,
  referTo,
  type Action,
  type Document,
  type Embedded,
  type Field,
  type JsonSchema,
  type Kind,
  type Link,
  type Naming,
  type Value,
} from './document.ts';

type Json = { [name: string]: unknown };

/** Returns the `rel` of a link or an entity. Equal ones of a page share one array: a page of 20 items has 106. */
type RelArray = (rel: string) => readonly string[];

function createRelArray(naming: Naming): RelArray {
  const known = new Map<string, readonly string[]>();
  return (rel) => {
    const present = known.get(rel);
    if (present !== undefined) return present;
    const array = [addressOfRelation(rel, naming)];
    known.set(rel, array);
    return array;
  };
}

const classOf = (document: Document): string[] => (isPaged(document) ? [document.name, 'collection'] : [document.name]);

const titleOf = ({ title, links }: Document): string | undefined =>
  title ?? links.find(({ rel }) => rel === 'self')?.title;

/** Omits templated links, which Siren does not support. */
const linksOf = (links: readonly Link[], relArray: RelArray): Json[] =>
  links
    .filter(({ templated }) => templated !== true)
    .map(({ rel, href, title, type }) => ({ rel: relArray(rel), href, title, type }));

const entitiesOf = (embedded: readonly Embedded[], relArray: RelArray): Json[] =>
  embedded.flatMap(({ rel, documents }) => documents.map((document) => entityOf(document, relArray, relArray(rel))));

/**
 * Returns an entity. An embedded one has no `href`: Siren treats an entity with `href` as a mere link, and clients drop
 * the rest. JSON omits undefined members.
 */
function entityOf(document: Document, relArray: RelArray, rel: readonly string[] | undefined): Json {
  const { links, embedded, actions } = document;
  const properties: Json = {};
  for (const { name, value } of document.properties) properties[name] = value;
  return {
    class: classOf(document),
    rel,
    title: titleOf(document),
    properties,
    entities: embedded.length === 0 ? undefined : entitiesOf(embedded, relArray),
    actions: actions?.map(sirenAction),
    links: links.length === 0 ? undefined : linksOf(links, relArray),
  };
}

export function renderSiren(document: Document, naming: Naming): string {
  return JSON.stringify(entityOf(document, createRelArray(naming), undefined));
}

// Actions and fields of a Siren entity.

/** The nearest input type that Siren takes from HTML; it has no `textarea` and no `select`. */
const INPUT_TYPES = {
  text: 'text',
  code: 'text',
  json: 'text',
  enumeration: 'text',
  number: 'number',
  count: 'number',
  money: 'number',
  progress: 'number',
  trend: 'text',
  boolean: 'radio',
  date: 'datetime',
  url: 'url',
  secret: 'password',
} as const satisfies Readonly<Record<Kind, string>>;

type Choice = { title?: string; value: string };

const yesOrNo: readonly Choice[] = [
  { title: 'Yes', value: '1' },
  { title: 'No', value: '0' },
];

/** Clears the value; last, so that clients do not take it for the default. */
const none: Choice = { title: 'None', value: '' };

/** Returns the choices; undefined if any value is possible. */
function choicesOf({ kind, choices, isClearable }: Field): readonly Choice[] | undefined {
  if (kind === 'boolean') return yesOrNo;
  const all = choices?.map((value) => ({ value }));
  return isClearable === true ? all?.concat(none) : all;
}

function textOf(value: Value): string {
  if (typeof value === 'boolean') return value ? '1' : '0';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/**
 * Returns the value of a field: a text, a number or a list of choices. Siren permits neither null nor objects nor
 * booleans.
 */
function valueOf(field: Field): string | number | readonly Json[] | undefined {
  const { value = null, isMultiple } = field;
  const present: readonly Value[] = isMultiple && Array.isArray(value) ? (value as readonly Value[]) : [value];
  const choices = choicesOf(field);
  if (choices !== undefined) {
    const selected = new Set(present.map(textOf));
    return choices.map(({ title, value: own }) => ({ title, value: own, selected: selected.has(own) || undefined }));
  }
  if (value === null) return undefined;
  if (isMultiple) return present.map((one) => ({ value: textOf(one), selected: true }));
  return typeof value === 'number' ? value : textOf(value);
}

/** Siren cannot express required fields and multiple values, so they are in the class of the field. */
const classOfField = ({ kind, isRequired, isMultiple }: Field): string[] => [
  kind,
  ...(isRequired ? ['required'] : []),
  ...(isMultiple ? ['multiple'] : []),
];

function typeOf(field: Field): string {
  if (choicesOf(field) === undefined) return INPUT_TYPES[field.kind];
  return field.isMultiple ? 'checkbox' : 'radio';
}

/** `min` and `max` are HTML's; the length of a text cannot be expressed. JSON omits undefined members. */
const fieldOf = (field: Field): Json => ({
  name: field.name,
  class: classOfField(field),
  type: typeOf(field),
  title: field.hint,
  min: field.minimum,
  max: field.maximum,
  value: valueOf(field),
});

/**
 * The type is JSON, because a form cannot distinguish numbers and lists from texts. Without fields there is no body and
 * no type.
 */
function sirenAction({ name, title, method, href, fields }: Action): Json {
  return {
    name,
    title,
    method,
    href,
    ...(fields.length > 0 && { type: 'application/json', fields: fields.map(fieldOf) }),
  };
}

// The JSON Schema of Siren entities, which have the same structure for every resource.

const TEXT: JsonSchema = { type: 'string' };
const TEXTS: JsonSchema = { type: 'array', items: TEXT };

const arrayOf = (required: readonly string[], properties: Readonly<Record<string, JsonSchema>>): JsonSchema => ({
  type: 'array',
  items: { type: 'object', required, properties },
});

const fields = arrayOf(['name', 'class', 'type'], {
  name: TEXT,
  class: TEXTS,
  type: TEXT,
  title: TEXT,
  min: { type: 'number' },
  max: { type: 'number' },
  value: { description: 'A text, a number, or the choices with their value and whether it is selected.' },
});

export const sirenComponents: Readonly<Record<string, JsonSchema>> = {
  siren_entity: {
    type: 'object',
    required: ['class', 'properties'],
    properties: {
      class: TEXTS,
      rel: TEXTS,
      title: TEXT,
      properties: { type: 'object', additionalProperties: true },
      entities: { type: 'array', items: referTo('siren_entity') },
      links: arrayOf(['rel', 'href'], { rel: TEXTS, href: TEXT, title: TEXT, type: TEXT }),
      actions: arrayOf(['name', 'title', 'method', 'href'], {
        name: TEXT,
        title: TEXT,
        method: { type: 'string', enum: ['POST', 'PATCH', 'PUT', 'DELETE'] },
        href: TEXT,
        type: TEXT,
        fields,
      }),
    },
  },
};
