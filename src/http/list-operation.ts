/** Operations that list a collection, and the offer of a narrower search in place of one that took too long. */
import { formatDate, isLocalDate, parseDate } from '#hypermedia/date.ts';
import {
  isScalar,
  viewType,
  type Document,
  type Link,
  type Naming,
  type Search,
  type Value,
} from '#hypermedia/document.ts';
import { readListing, type Relations } from '#hypermedia/list-query.ts';
import { collection } from '#hypermedia/paging.ts';
import type { Comparisons, Listing, Filter } from '#core/listing.ts';
import {
  withPrincipal,
  operation,
  type ApiRequest,
  type Beside,
  type OperationOptions,
  type Operation,
} from './operation.ts';
import type { Params } from './route.ts';
import { TOO_MUCH_TO_SEARCH } from '#db/search.ts';
import { invalid, Problem } from '#core/problem.ts';
import { TooWide } from './errors.ts';

/** What the items of a list belong to. `webhookId`: null for those of the whole store. */
type ListView = { storeId: number; webhookId: number | null };

export const listView = viewType<ListView>('list');

/**
 * A page of results. `path` is the collection's address; `links` are added to those of paging; `rel` and `title` are
 * set if they depend on the address, `naming` if the items were frozen with their own.
 */
export type Listed = {
  path: string;
  items: readonly Document[];
  total: number;
  links?: readonly Link[];
  rel?: string;
  title?: string;
  naming?: Naming;
  beside?: Beside;
  /** The time zone of dates in the search form: the store's. */
  timeZone?: string;
  /** Choices that neither the forms nor the search form offer. */
  withheld?: readonly string[];
  /** For lists with a page that is designed or kept live. */
  of?: ListView;
};

/** Names of properties, each with its choices; null if any value is possible, `contains` for a text that the value contains. */
export type SearchedBy = Readonly<Record<string, readonly string[] | null | 'contains'>>;

const searchFields = (
  searchedBy: SearchedBy,
  properties: Comparisons,
  withheld: readonly string[] = [],
): Search['fields'] =>
  Object.entries(searchedBy).flatMap(([name, all]): Search['fields'] => {
    const choices = Array.isArray(all) ? all.filter((choice) => !withheld.includes(choice)) : all;
    const comparison = properties[name];
    if (comparison === 'date')
      return ['greaterthan', 'lessthan'].map((side) => ({ name: `${name}:${side}`, kind: 'date' }));
    if (comparison === 'number' || comparison === 'boolean') return [{ name, kind: comparison }];
    if (choices === 'contains') return [{ name: `${name}:contains`, kind: 'text' }];
    return [choices === null ? { name, kind: 'text' } : { name, kind: 'enumeration', choices }];
  });

const CREATED = 'date_created';

/**
 * Returns the query in which dates without an offset, of the declared properties, have that of the time zone, which is read only if
 * there are any.
 */
async function withOffsets(
  query: URLSearchParams,
  properties: Comparisons,
  zone: () => Promise<string>,
): Promise<URLSearchParams> {
  // There may be several with the operator `in`.
  const parameters = Array.from(query, ([name, value]) => ({ name, dates: value.split(',') }));
  const isDate = (name: string): boolean => properties[name.split(':', 1)[0] ?? ''] === 'date';
  if (!parameters.some(({ name, dates }) => isDate(name) && dates.some(isLocalDate))) return query;
  const timeZone = await zone();
  const withOffset = (date: string): string => {
    const at = isLocalDate(date) ? parseDate(date, timeZone) : undefined;
    return at === undefined ? date : formatDate(at, timeZone);
  };
  return new URLSearchParams(
    parameters.map(({ name, dates }) => [name, (isDate(name) ? dates.map(withOffset) : dates).join(',')]),
  );
}

/** The limit of the texts of a page, as a format writes them: 8 MiB take 90 ms, in which no other request is served. */
const PAGE_LENGTH_MAX = 8 * 1024 * 1024;
/** A control character in JSON, and a quote in XML. */
const ESCAPED_LENGTH = 6;
/** `"&'<>`; control characters are below 32, and from 127 to 159. */
const ESCAPED: ReadonlySet<number> = new Set([34, 38, 39, 60, 62]);
const isEscaped = (code: number): boolean => code < 32 || ESCAPED.has(code) || (code > 126 && code < 160);

type Measure = (text: string) => number;

/** Returns the sum of the texts of a value, also of those of its members. */
function lengthOf(value: Value, measure: Measure): number {
  if (typeof value === 'string') return measure(value);
  if (isScalar(value)) return 0;
  let length = 0;
  for (const member of Object.values(value)) length += lengthOf(member, measure);
  return length;
}

/** Returns the sum of the texts of an item: of its properties that `fields` names, and of what is embedded in it. */
function lengthOfItem(
  { properties, embedded }: Document,
  fields: ReadonlySet<string> | null,
  measure: Measure,
): number {
  let length = 0;
  for (const { name, value } of properties) if (fields === null || fields.has(name)) length += lengthOf(value, measure);
  for (const { documents } of embedded) for (const one of documents) length += lengthOfItem(one, null, measure);
  return length;
}

const storedLength: Measure = ({ length }) => length;

const writtenLength: Measure = (text) => {
  let { length } = text;
  for (let at = 0; at < text.length; at += 1) if (isEscaped(text.charCodeAt(at))) length += ESCAPED_LENGTH - 1;
  return length;
};

/** Returns the 400 for a page of which only the first `fitting` items fit. */
export function pageTooLarge(fitting: number): Problem {
  const message = `These resources are too large for one page: use limit=${fitting}, which fits at this offset`;
  return invalid({ code: 'too_large', message, field: 'limit' });
}

/** Throws a 400 for items with more text than a page may have, such as what endpoints responded. */
function requireFitting(items: readonly Document[], fields: ReadonlySet<string> | null): void {
  let length = 0;
  for (const item of items) length += lengthOfItem(item, fields, storedLength);
  if (length <= PAGE_LENGTH_MAX / ESCAPED_LENGTH) return;
  length = 0;
  for (const [fitting, item] of items.entries()) {
    length += lengthOfItem(item, fields, writtenLength);
    if (length > PAGE_LENGTH_MAX && fitting > 0) throw pageTooLarge(fitting);
  }
}

/**
 * Defines an operation that lists a collection. `offset`, `limit`, `order`, `fields` and filters are parsed here for
 * every collection, according to `properties`. `isOpen` permits other properties, except at addresses for which
 * `closedAt` returns the properties.
 */
export function listing(
  described: OperationOptions & {
    /** The relation of the items, and the collection's name. */
    rel: string;
    title: string;
    properties: Comparisons;
    isOpen?: true;
    /** Properties in the search form of pages. A date has two fields, from and to. */
    searchedBy?: SearchedBy;
    /** The property by whose dates a search is narrowed if it takes too long; `date_created` by default and with `closedAt`. */
    narrowedBy?: string;
    closedAt?: (params: Params) => Comparisons | undefined;
    /** The relations that `zoom` may name, if any. */
    relations?: (request: ApiRequest<undefined>) => Relations;
    /** Returns the time zone of the store for dates without an offset; undefined for a store that does not exist. Default: UTC. */
    zone?: (request: ApiRequest<undefined>) => Promise<string | undefined>;
    handle: (request: ApiRequest<undefined> & { listing: Listing; zoom: Relations }) => Promise<Listed>;
  },
): Operation {
  return operation(described, {
    access: described.access ?? 'token',
    properties: described.properties,
    isOpen: described.isOpen === true,
    closedAt: described.closedAt,
    modifiers: ['offset', 'limit', 'order', 'fields', ...(described.relations === undefined ? [] : ['zoom'])],
    handle: async (rawRequest) => {
      const request = withPrincipal<undefined>(rawRequest);
      const closedProperties = described.closedAt?.(request.params);
      const { properties, isOpen = false } =
        closedProperties === undefined ? described : { properties: closedProperties };
      const zone = async () => (await described.zone?.(request)) ?? 'UTC';
      const query = await withOffsets(request.query, properties, zone);
      const parsed = readListing(query, {
        properties,
        isOpen,
        isPublished: described.isOpen === true,
        relations: described.relations?.(request),
      });
      const handled = described.handle({ ...request, listing: parsed.listing, zoom: parsed.zoom });
      const result = await handled.catch(async (error: unknown) => {
        const { searchedBy, narrowedBy = CREATED } = described;
        const property = closedProperties === undefined ? narrowedBy : CREATED;
        if (properties[property] !== 'date') throw error;
        const fields = searchFields({ ...searchedBy, [property]: null }, properties);
        throw await withNarrower(
          error,
          { query, now: request.now, zone },
          { filters: parsed.listing.filters, property, fields },
        );
      });
      const { links = [], rel = described.rel, title = described.title, timeZone = 'UTC' } = result;
      const { path, items, total } = result;
      requireFitting(items, parsed.fields);
      const page = { query, page: parsed.listing, fields: parsed.fields };
      const document = collection({ name: rel, rel, title, ...page, path, items, total });
      const search = described.searchedBy && {
        fields: searchFields(described.searchedBy, described.properties, result.withheld),
        timeZone,
      };
      const view = result.of && listView.attach(result.of);
      const whole = {
        ...document,
        links: [...document.links, ...links],
        ...(search && { search }),
        ...(result.withheld && { withheld: result.withheld }),
        ...view,
      };
      const { naming, beside } = result;
      return { status: 200, document: whole, ...(naming && { naming }), ...(beside && { beside }) };
    },
  });
}

const HOUR_MS = 3_600_000;
/** The first offer for a search without a beginning. */
const FIRST_OFFER_MS = 7 * 24 * HOUR_MS;

/**
 * Returns where the newer half of the range of dates begins, or the last week of a range without a beginning; undefined if the range
 * is an hour or shorter.
 */
function narrowerFrom(filters: readonly Filter[], property: string, now: Date): Date | undefined {
  const ofDate = filters.filter((filter) => filter.property === property);
  const datesOf = (...operators: Filter['operator'][]): number[] =>
    ofDate.flatMap(({ operator, value }) =>
      operators.includes(operator) && value instanceof Date ? [value.getTime()] : [],
    );
  if (ofDate.some(({ operator }) => operator === 'in') || datesOf('is').length > 0) return undefined;
  const from = Math.max(...datesOf('greaterthan', 'greaterthanorequal'));
  const before = Math.min(...datesOf('lessthan', 'lessthanorequal'));
  const to = before === Infinity ? now.getTime() : before;
  if (from === -Infinity) return new Date(to - FIRST_OFFER_MS);
  return to - from > HOUR_MS ? new Date((from + to) / 2) : undefined;
}

/** Returns the error with a narrower search, if it is that of a search that took too long and there is one. */
export async function withNarrower(
  error: unknown,
  { query, now, zone }: { query: URLSearchParams; now: Date; zone: () => Promise<string> },
  { filters, property, fields }: { filters: readonly Filter[]; property: string; fields: Search['fields'] },
): Promise<unknown> {
  if (!(error instanceof Problem) || error.faults[0]?.code !== TOO_MUCH_TO_SEARCH) return error;
  const from = narrowerFrom(filters, property, now);
  if (from === undefined) return error;
  const narrower = new URLSearchParams(query);
  // The page of the wider search is another one of this.
  narrower.delete('offset');
  const timeZone = await zone();
  const date = formatDate(from, timeZone);
  narrower.set(`${property}:greaterthan`, date);
  return new TooWide(error, {
    query: narrower,
    title: `The same search from ${date} on`,
    form: { at: 'related', fields, timeZone },
  });
}
