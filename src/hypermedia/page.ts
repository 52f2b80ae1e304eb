/** Paging of collections: pure calculation of the links that every collection carries. */
import type { Fault } from '#core/problem.ts';
import { count, number, type Document, type Embedded, type Link } from './document.ts';
import { onlyValue } from './parameters.ts';

export type Page = { offset: number; limit: number };

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 300;
const OFFSET_MAX = 10 ** 15 - 1;

type Range = { fallback: number; min: number; max: number };

const wholeNumber = (query: URLSearchParams, name: string, { fallback, min, max }: Range, faults: Fault[]): number => {
  const text = onlyValue(query, name, faults);
  if (text === undefined) return fallback;
  const value = /^[0-9]+$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  const message = `${name} must be a whole number from ${min} to ${max}`;
  faults.push({ code: 'invalid_parameter', message, field: name });
  return fallback;
};

/** `offset` 0–(10¹⁵ − 1) and `limit` 1–300 from the query; what is out of range is added to `faults`. */
export const readPage = (query: URLSearchParams, faults: Fault[]): Page => ({
  offset: wholeNumber(query, 'offset', { fallback: 0, min: 0, max: OFFSET_MAX }, faults),
  limit: wholeNumber(query, 'limit', { fallback: LIMIT_DEFAULT, min: 1, max: LIMIT_MAX }, faults),
});

/** The offsets of the neighbours; on the first page `prev` is the page itself, on the last `next` is. */
export const neighbours = ({ offset, limit }: Page, total: number) => {
  const last = total === 0 ? 0 : Math.floor((total - 1) / limit) * limit;
  return {
    first: 0,
    // Past the end, the way back leads to the last page and not to another empty one.
    prev: offset > last ? last : Math.max(0, offset - limit),
    next: offset + limit < total ? offset + limit : offset,
    last,
  };
};

/** Returns the document with these properties of it alone; `null` keeps all. */
export const withFields = (document: Document, fields: ReadonlySet<string> | null): Document =>
  fields === null ? document : { ...document, properties: document.properties.filter(({ name }) => fields.has(name)) };

/** Returns whether a link of a page leads to that page itself, as `prev` does on the first one and `next` on the last. */
export const leadsHere = ({ properties }: Document, href: string): boolean => {
  const offset = properties.find(({ name }) => name === 'offset')?.value;
  return Number(new URLSearchParams(href.slice(href.indexOf('?') + 1)).get('offset') ?? NaN) === offset;
};

/**
 * A collection as a Document: the four paging members, all five links and the items embedded under `rel`.
 * `query` is the caller's own, kept in every link but for the offset.
 */
export const collection = (input: {
  name: string;
  rel: string;
  title: string;
  path: string;
  query: URLSearchParams;
  page: Page;
  total: number;
  items: readonly Document[];
  /** The properties that are shown of each item; null for all. */
  fields?: ReadonlySet<string> | null;
}): Document => {
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
};
