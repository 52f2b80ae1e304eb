/**
 * The one description of a resource. Rooms make Documents, renderers turn them into a format; no room names a format and
 * no renderer knows a resource.
 */
export type Value = string | number | boolean | null | readonly Value[] | { readonly [name: string]: Value };

/** How a value is meant: a renderer that shows people things needs it, one for machines mostly does not. */
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
 * `currency` (ISO 4217) belongs to a value of the kind `money`, `unit` (`ms`, `%`) to a number that is not read without one. A
 * `progress` is a number that has come so far `of` a total; a `trend` is an array of numbers, oldest first, null where there is none; people
 * read in `labels` when each of them was (`14:00`).
 */
export type Property = {
  name: string;
  value: Value;
  kind: Kind;
  currency?: string;
  unit?: string;
  of?: number;
  /** A number here, which may be a text elsewhere: an id that a publisher chose. The schema says so. */
  mayBeText?: true;
  labels?: readonly string[];
};

/**
 * `rel` is an IANA name (`self`, `next`) or one of ours without its prefix (`store`, `webhooks`). `isForPrograms` where nobody
 * finds anything who merely follows it, though what answers is a page: a program has to add a query first. `crumb` makes it a
 * part of the way from outside to this place, in the order of links, and says what people call it there: `Orders`.
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
 * `single` embeds one object where the relation has one target, else an array. `isTimeline`: people read them one after the other,
 * each whole, in the order of time; else as a table. `title` where people call it otherwise than its relation.
 */
export type Embedded = {
  rel: string;
  documents: readonly Document[];
  single?: boolean;
  isTimeline?: true;
  title?: string;
};

/** One thing that an action takes: what the schema that judges it says of it. */
export type Field = {
  name: string;
  kind: Kind;
  isRequired: boolean;
  /** Several values under one name. */
  isMultiple: boolean;
  /** What may be chosen. */
  choices?: readonly string[];
  /** Whether it may be set to nothing once it has a value. */
  isClearable?: true;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  /** One sentence for whoever fills it in. */
  hint?: string;
  /** A good new value is made up for it where it has none: a key. */
  isGenerated?: true;
  /** Only who has the scope platform is asked for it. */
  isOfPlatform?: true;
  /** A page asks nobody for it. */
  isForPrograms?: true;
  /** Few want it: forms fold it up with its like. */
  isMinor?: true;
  /** What stands there now; absent where nothing does. */
  value?: Value;
};

/** Something that can be done beside reading. `fields` is empty where no body is wanted. */
export type Action = {
  name: string;
  title: string;
  method: 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  href: string;
  fields: readonly Field[];
  /** One sentence: what comes of it. */
  about?: string;
};

/**
 * What a collection is searched by: names of parameters as its query has them (`status`, `date_created:lessthan`), and the zone
 * in which people mean what they type of dates.
 */
export type Search = { fields: readonly Pick<Field, 'name' | 'kind' | 'choices'>[]; timeZone: string };

export type Document = {
  /** What it is, also the name of the relation that is explained under /rels: `webhook`, `webhooks`. */
  name: string;
  /** What people call such a one, where `name` is another word of programs: `Delivery`. */
  called?: string;
  /** What people call this one; the title of its self link where it has no name of its own. */
  title?: string;
  /** Another one with each change: what `If-Match` is compared with. */
  version?: number | string;
  properties: readonly Property[];
  links: readonly Link[];
  embedded: readonly Embedded[];
  /** What the reader may do here. Embedded documents have theirs at their own address. */
  actions?: readonly Action[];
  /** It waits for something: after so long a page of it asks for itself again. */
  refreshSeconds?: number;
  /** Of a collection: pages have a form that asks for the same address with a query. */
  search?: Search;
};

/** What the addresses in a representation are made of; frozen with an event, the process' own for everything else. */
export type Naming = { baseUrl: string; relationPrefix: string };

const property =
  (kind: Kind) =>
  (name: string, value: Value): Property => ({ name, value, kind });

export const text = property('text');
export const number = property('number');
/** A count of items: a string in JSON, a number elsewhere (the specification's `total_items`). */
export const count = property('count');
export const boolean = property('boolean');
export const enumeration = property('enumeration');
export const secret = property('secret');
export const url = property('url');
export const code = property('code');
export const json = property('json');
/** A date already written by `formatDate`. */
export const date = property('date');
