/** Query parameters, and the paging of collections by them. */
import { invalid, type Fault } from '#core/problem.ts';
import { count, number, type Document, type Embedded, type Link } from './document.ts';

export type Page = { offset: number; limit: number };

type Range = { fallback: number; min: number; max: number };

export const OFFSETS: Range = { fallback: 0, min: 0, max: 10 ** 15 - 1 };
export const LIMITS: Range = { fallback: 20, min: 1, max: 300 };

function wholeNumber(query: URLSearchParams, name: string, { fallback, min, max }: Range, faults: Fault[]): number {
  const text = onlyValue(query, name, faults);
  if (text === undefined) return fallback;
  const value = /^[0-9]+$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  const message = `${name} must be a whole number from ${min} to ${max}`;
  faults.push({ code: 'invalid_parameter', message, field: name });
  return fallback;
}

/** Parses `offset` and `limit`; adds a fault for values out of range. */
export function readPage(query: URLSearchParams, faults: Fault[]): Page {
  return {
    offset: wholeNumber(query, 'offset', OFFSETS, faults),
    limit: wholeNumber(query, 'limit', LIMITS, faults),
  };
}

/** Returns the offsets of the neighbours; `prev` of the first page and `next` of the last one are the page itself. */
export function neighbours({ offset, limit }: Page, total: number) {
  const last = total === 0 ? 0 : Math.floor((total - 1) / limit) * limit;
  return {
    first: 0,
    // Past the end, `prev` is the last page, not another empty one.
    prev: offset > last ? last : Math.max(0, offset - limit),
    next: offset + limit < total ? offset + limit : offset,
    last,
  };
}

/** Returns the document with these properties only, and without the view of its designed page; `null` keeps all. */
export function withFields(document: Document, fields: ReadonlySet<string> | null): Document {
  if (fields === null) return document;
  const { view: _, ...rest } = document;
  return { ...rest, properties: document.properties.filter(({ name }) => fields.has(name)) };
}

/**
 * Returns whether a link of a page leads to the page itself, as `prev` does on the first one and `next` on the last.
 */
export function leadsHere({ properties }: Document, href: string): boolean {
  const offset = properties.find(({ name }) => name === 'offset')?.value;
  return Number(new URLSearchParams(href.slice(href.indexOf('?') + 1)).get('offset') ?? NaN) === offset;
}

/**
 * Returns a collection as a Document: four paging properties, five links, and the items embedded under `rel`. `query`
 * is the caller's, which every link repeats with another offset.
 */
export function collection(input: {
  name: string;
  rel: string;
  title: string;
  path: string;
  query: URLSearchParams;
  page: Page;
  total: number;
  items: readonly Document[];
  /** The properties of each item to include; null for all. */
  fields?: ReadonlySet<string> | null;
}): Document {
  const at = (offset: number): string => {
    const query = new URLSearchParams(input.query);
    query.set('offset', String(offset));
    return `${input.path}?${query.toString()}`;
  };
  const self = input.query.size > 0 ? `${input.path}?${input.query.toString()}` : input.path;
  const { first, prev, next, last } = neighbours(input.page, input.total);
  const links: Link[] = [
    { rel: 'self', href: self, title: input.title },
    { rel: 'first', href: at(first), title: 'First page' },
    { rel: 'prev', href: at(prev), title: 'Previous page' },
    { rel: 'next', href: at(next), title: 'Next page' },
    { rel: 'last', href: at(last), title: 'Last page' },
  ];
  const { fields = null } = input;
  const documents = input.items.map((item) => withFields(item, fields));
  const embedded: Embedded[] = [{ rel: input.rel, documents }];
  return {
    name: input.name,
    links,
    embedded,
    properties: [
      count('total_items', input.total),
      number('returned_items', input.items.length),
      number('limit', input.page.limit),
      number('offset', input.page.offset),
    ],
  };
}

/** Returns the fault of an unknown parameter: ignored silently, it would seem to work. */
export function unknownParameter(name: string, known: readonly string[], field: string = name): Fault {
  return {
    code: 'unknown_parameter',
    message: `There is no parameter "${name}" here; possible: ${known.join(', ') || 'none'}`,
    field,
  };
}

/** Returns the names of unknown parameters, each once. */
export function otherNames(query: URLSearchParams, known: readonly string[]): string[] {
  return [...new Set(query.keys()).difference(new Set(known))];
}

/** With more unknown parameters the error lists none of them. */
const OTHERS_MAX = 20;

/** Throws a 400 that names every unknown parameter. */
export function refuseParameters(query: URLSearchParams, known: readonly string[]): void {
  const others = otherNames(query, known);
  if (others.length > OTHERS_MAX)
    throw invalid({ code: 'too_many', message: `There are ${others.length} unknown parameters` });
  if (others.length > 0) throw invalid(...others.map((name) => unknownParameter(name, known)));
}

/**
 * Returns the value of a parameter; undefined if it is absent or repeated. A repetition is a fault of `field`, which
 * differs from the name if the whole query is a property of a body.
 */
export function onlyValue(
  query: URLSearchParams,
  name: string,
  faults: Fault[],
  field: string = name,
): string | undefined {
  const [value, ...more] = query.getAll(name);
  if (more.length === 0) return value;
  faults.push({ code: 'duplicate_parameter', message: `${name} is given more than once`, field });
  return undefined;
}

export const FIELDS_MAX = 100;

/** Returns the members of a comma-separated list; none if the parameter is absent or invalid, which is a fault. */
export function membersOf(
  query: URLSearchParams,
  name: string,
  max: number,
  faults: Fault[],
  field: string = name,
): string[] {
  const text = onlyValue(query, name, faults, field);
  if (text === undefined) return [];
  const members = text.split(',').map((member) => member.trim());
  if (members.length <= max && !members.includes('')) return members;
  const message = `${name} takes 1 to ${max} properties, separated by commas`;
  faults.push({ code: members.length > max ? 'too_many' : 'invalid_parameter', message, field });
  return [];
}
