/**
 * The format-independent description of a resource. Modules return Documents and renderers convert them to a format;
 * modules know no format, and renderers no resource.
 */
import { ExactNumber } from '#core/exact-number.ts';
import type { Markup } from './markup.ts';

export type Scalar = string | number | ExactNumber | boolean | null;
export type Value = Scalar | readonly Value[] | { readonly [name: string]: Value };

export function isScalar(value: Value): value is Scalar {
  return typeof value !== 'object' || value === null || value instanceof ExactNumber;
}

/** The meaning of a value, mainly for renderers of pages. */
export type Kind =
  | 'text'
  | 'number'
  | 'count'
  | 'boolean'
  | 'date'
  | 'url'
  | 'code'
  | 'secret'
  | 'enumeration'
  | 'money'
  | 'json'
  | 'progress'
  | 'trend';

/**
 * `currency` (ISO 4217) belongs to the kind `money`, `unit` (`ms`, `%`) to a number. A `progress` is a part `of` a
 * total; a `trend` is an array of numbers, oldest first, with null for missing ones and `labels` for their times
 * (`14:00`).
 */
export type Property = {
  name: string;
  value: Value;
  kind: Kind;
  currency?: string;
  unit?: string;
  of?: number;
  /**
   * A value of a publisher, who declares no types: an id may be an integer or a text, and a number a fraction. Also a JSON value with
   * members that its example does not determine.
   */
  published?: 'id' | 'value';
  /** The value of another resource of this type is null. The schema permits null. */
  mayBeNull?: true;
  /** Another resource of this type does not have the property. The schema does not require it. */
  mayBeAbsent?: true;
  labels?: readonly string[];
  /** The value has masked parts, which are shown to the reader after a confirmation. */
  isWithheld?: true;
  /** What a cell of a page has in place of the value. */
  cell?: Markup;
  /** For a secret that is not shown yet: the address where the reader proves who they are, and from which they return. */
  confirmAt?: string;
};

/**
 * `rel` is an IANA name (`self`, `next`) or one of our own without prefix (`store`, `webhooks`). `isForPrograms`: the
 * target is useful only with a query that programs add. `crumb` is the label of a link that is part of the breadcrumbs,
 * in the order of links.
 */
export type Link = {
  rel: string;
  href: string;
  title?: string;
  type?: string;
  templated?: true;
  isForPrograms?: true;
  crumb?: string;
};

/**
 * `single` embeds one object, else an array. `isTimeline`: pages show the documents in chronological order instead of a
 * table. `title` replaces the name of the relation on pages, where the heading leads to `href` if the documents have a page of their own.
 */
export type Embedded = {
  rel: string;
  documents: readonly Document[];
  single?: boolean;
  isTimeline?: true;
  title?: string;
  href?: string | undefined;
};

/** How forms treat a field. */
export type FieldHints = {
  /** A value is generated if it has none: a key. */
  isGenerated?: true;
  /** A change needs a person who proved a moment ago who they are, as that of a secret does. */
  isSensitive?: true;
  /** Only the scope platform may change it; forms show it to no other caller. */
  isOfPlatform?: true;
  /** Pages do not show it. */
  isForPrograms?: true;
  /** What a person knows first: forms begin with these fields. */
  isMain?: true;
  /** Rarely used: forms fold these fields. */
  isMinor?: true;
};

/** A field of an action, derived from the schema that validates it. */
export type Field = FieldHints & {
  name: string;
  kind: Kind;
  isRequired: boolean;
  /** Several values with one name. */
  isMultiple: boolean;
  /** The choices. */
  choices?: readonly string[];
  /** The value may be cleared. */
  isClearable?: true;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  /** One sentence for the person who fills it in. */
  hint?: string;
  /** The current value, if any. */
  value?: Value;
};

/** A change that the caller can make. `fields` is empty if it needs no body. */
export type Action = {
  name: string;
  title: string;
  method: 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  href: string;
  fields: readonly Field[];
  /** One sentence that describes the effect. */
  about?: string;
  /** The label of the button that shows what the action would do, before it is done. */
  preview?: string | undefined;
};

/**
 * The search form of a collection: names of query parameters (`status`, `date_created:lessthan`), and the time zone of
 * dates without one. The values of its fields are those of the address that the link `at` has, `self` unless it is set.
 */
export type Search = { at?: string; fields: readonly Pick<Field, 'name' | 'kind' | 'choices'>[]; timeZone: string };

export type Document = {
  /** The type of resource, and its relation under /rels: `webhook`, `webhooks`. */
  name: string;
  /** The name of the type on pages, if it differs from `name`: `Delivery`. */
  called?: string;
  /** The name of this resource. Without one, renderers show the title of the self link. */
  title?: string;
  /** Changes with every modification; `If-Match` is compared with it. */
  version?: number | string;
  properties: readonly Property[];
  links: readonly Link[];
  embedded: readonly Embedded[];
  /** Actions that the caller may use. Embedded documents have theirs at their own address. */
  actions?: readonly Action[];
  /** A request to change or delete it is refused for every caller, so it has no such actions. */
  isUnchangeable?: true;
  /** Choices that its forms do not offer: the values are refused for what the document is about. */
  withheld?: readonly string[];
  /** The document is about to change: its page reloads after this time. */
  refreshSeconds?: number;
  /** The time zone in which its dates are shown, and dates without an offset in its forms are read: the store's. Default: UTC. */
  timeZone?: string;
  /** For collections: the search form of the page. */
  search?: Search;
  /** What a designed page shows of it; only `ViewType` reads and makes it. A stored response keeps it as JSON. */
  view?: { type: string; value: unknown };
};

/** A typed view of a resource: what its designed page renders, instead of properties that it would look up by their names. */
export type ViewType<View> = {
  /** Returns the member with which a Document has the view. */
  attach: (view: View) => Required<Pick<Document, 'view'>>;
  /** Returns the view of a Document; undefined if it has none of this type, as after `fields` has removed properties. */
  of: (document: Document) => View | undefined;
};

/** Creates the type of views with this name. A view is JSON: dates are as in the API, and secrets masked as in the properties. */
export function viewType<View>(type: string): ViewType<View> {
  return {
    attach: (value) => ({ view: { type, value } }),
    of: ({ view }) => (view?.type === type ? (view.value as View) : undefined),
  };
}

/** Base of the addresses in a representation: frozen with an event, otherwise from the configuration. */
export type Naming = { baseUrl: string; relationPrefix: string };

type Present = Exclude<Value, null>;

/** Makes properties of a kind; with `orNull` those that may be null, so that the compiler compares schemas with values. */
type PropertyMaker = { (name: string, value: Present): Property; orNull: (name: string, value: Value) => Property };

const property = (kind: Kind): PropertyMaker =>
  Object.assign((name: string, value: Present): Property => ({ name, value, kind }), {
    orNull: (name: string, value: Value): Property => ({ name, value, kind, mayBeNull: true }),
  });

export const text = property('text');
export const number = property('number');
/** A count of items: a string in JSON, a number elsewhere (`total_items` of the specification). */
export const count = property('count');
export const boolean = property('boolean');
export const enumeration = property('enumeration');
export const secret = property('secret');
export const url = property('url');
export const code = property('code');
export const json = property('json');
/** A date formatted by `formatDate`. */
export const date = property('date');

/** Link relations that IANA registers (RFC 8288 §4.2); all others are our own and have our prefix. */
const registered: ReadonlySet<string> = new Set(['self', 'first', 'prev', 'next', 'last', 'related', 'curies']);

export function isRegistered(rel: string): boolean {
  return registered.has(rel);
}

/** Returns the name of a relation in `rel`: our own with the prefix, which `templateOf` resolves. */
export function nameOf(rel: string, { relationPrefix }: Naming): string {
  return isRegistered(rel) ? rel : `${relationPrefix}:${rel}`;
}

/**
 * Returns the URI template (RFC 6570) of the documentation of our relations. `join` makes one flat string: a single
 * concatenated string among the values takes `JSON.stringify` off its fast path for the whole page, which then takes
 * 1.5 times as long.
 */
export function templateOf({ baseUrl }: Naming): string {
  return [baseUrl, '/rels/{rel}'].join('');
}

/**
 * Returns a relation for formats without prefixes: the name that IANA registers, or the address of its documentation.
 */
export function addressOfRelation(rel: string, naming: Naming): string {
  return isRegistered(rel) ? rel : templateOf(naming).split('{rel}').join(encodeURIComponent(rel));
}

export type JsonSchema = { readonly [keyword: string]: Value };

/** `examples` contains the documents that have a schema of their own, by the name of the schema. */
export type SchemaContext = { naming: Naming; examples: ReadonlyMap<string, Document> };

/** Returns the reference to a schema of OpenAPI's components. */
export function referTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}

/** Returns whether a document is a page of a collection, whose own members `fields` does not select. */
export function isPaged({ links }: Document): boolean {
  return links.some(({ rel }) => rel === 'last');
}

/** Returns the name of the schema of a document of which `fields` may select members. */
export function selectionOf(name: string): string {
  return `${name}_selection`;
}
