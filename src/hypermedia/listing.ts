/** `offset`, `limit`, `order`, `fields`, `zoom` and filters: what a query says of a collection, or everything wrong with it. */
import type { Comparisons, Listing } from '#kernel/listing.ts';
import { readPage } from './page.ts';
import type { Relations } from './zoom.ts';

/** What the items of a collection have: their properties, any other as well where `isOpen`, and what `zoom` may name. */
export type Listable = { properties: Comparisons; isOpen: boolean; relations: Relations | undefined };

export type Asked = { listing: Listing; fields: ReadonlySet<string> | null; zoom: Relations };

/** TODO in flight: order, fields, filters, zoom. */
export const readListing = (query: URLSearchParams, _listable: Listable): Asked => ({
  listing: { ...readPage(query), order: [], filters: [] },
  fields: null,
  zoom: {},
});
