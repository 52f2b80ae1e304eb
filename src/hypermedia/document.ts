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
  | 'json';

export type Property = { name: string; value: Value; kind: Kind };

/** `rel` is an IANA name (`self`, `next`) or one of ours without its prefix (`store`, `webhooks`). */
export type Link = { rel: string; href: string; title?: string; type?: string; templated?: true };

/** `single` embeds one object where the relation has one target, else an array. */
export type Embedded = { rel: string; documents: readonly Document[]; single?: boolean };

export type Document = {
  name: string;
  properties: readonly Property[];
  links: readonly Link[];
  embedded: readonly Embedded[];
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
