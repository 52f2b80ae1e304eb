/** Operations that read a collection. */
import type { Document, Link, Naming, Search } from '#hypermedia/document.ts';
import { readListing } from '#hypermedia/listing.ts';
import { collection } from '#hypermedia/page.ts';
import type { Relations } from '#hypermedia/zoom.ts';
import type { Comparisons, Listing } from '#core/listing.ts';
import { known, operation, type ApiRequest, type Charted, type Described, type Operation } from './operation.ts';
import type { Params } from './route.ts';

/**
 * A page of what a query found. `path` is the collection's address; `links` stand beside those of paging; `rel` and `title`
 * where they depend on the address, `naming` where what is listed was frozen with its own.
 */
export type Listed = {
  path: string;
  items: readonly Document[];
  total: number;
  links?: readonly Link[];
  rel?: string;
  title?: string;
  naming?: Naming;
  charts?: Charted;
  /** In which people mean what they search by: the store's. */
  timeZone?: string;
};

/** Names of properties, each with what may be chosen of it; null where that is anything. */
type SearchedBy = Readonly<Record<string, readonly string[] | null>>;

const searchFields = (searchedBy: SearchedBy, properties: Comparisons): Search['fields'] =>
  Object.entries(searchedBy).flatMap(([name, choices]): Search['fields'] => {
    const comparison = properties[name];
    if (comparison === 'date')
      return ['greaterthan', 'lessthan'].map((side) => ({ name: `${name}:${side}`, kind: 'date' }));
    if (comparison === 'number' || comparison === 'boolean') return [{ name, kind: comparison }];
    return [choices === null ? { name, kind: 'text' } : { name, kind: 'enumeration', choices }];
  });

/**
 * Reads a collection a page at a time: `offset`, `limit`, `order`, `fields` and filters are read here for every collection
 * alike, from what `properties` says of its items. `isOpen` where items may have other properties, too; not at addresses of
 * which `closedAt` says what they have.
 */
export const listing = (
  described: Described & {
    /** The relation the items stand under, and the collection's name. */
    rel: string;
    title: string;
    properties: Comparisons;
    isOpen?: true;
    /** What people search by, of the properties: pages have a form for it. Dates take two fields, from and to. */
    searchedBy?: SearchedBy;
    closedAt?: (params: Params) => Comparisons | undefined;
    /** What `zoom` may name, where it may name anything. */
    relations?: (request: ApiRequest<undefined>) => Relations;
    handle: (request: ApiRequest<undefined> & { listing: Listing; zoom: Relations }) => Promise<Listed>;
  },
): Operation =>
  operation(described, {
    access: described.access ?? 'token',
    properties: described.properties,
    closedAt: described.closedAt,
    modifiers: ['offset', 'limit', 'order', 'fields', ...(described.relations === undefined ? [] : ['zoom'])],
    handle: async (asked) => {
      const request = known<undefined>(asked);
      const { query } = request;
      const closed = described.closedAt?.(request.params);
      const { properties, isOpen = false } = closed === undefined ? described : { properties: closed };
      const {
        listing: wanted,
        fields,
        zoom,
      } = readListing(query, {
        properties,
        isOpen,
        relations: described.relations?.(request),
      });
      const found = await described.handle({ ...request, listing: wanted, zoom });
      const {
        links = [],
        rel = described.rel,
        title = described.title,
        naming,
        charts,
        timeZone = 'UTC',
        ...listed
      } = found;
      const document = collection({ name: rel, rel, title, query, page: wanted, fields, ...listed });
      const search = described.searchedBy && {
        fields: searchFields(described.searchedBy, described.properties),
        timeZone,
      };
      const whole = { ...document, links: [...document.links, ...links], ...(search && { search }) };
      return { status: 200, document: whole, ...(naming && { naming }), ...(charts && { charts }) };
    },
  });
