/** `offset`, `limit`, `order`, `fields`, `zoom` and filters: what a query says of a collection, or everything wrong with it. */
import type { Listing, Order } from '#core/listing.ts';
import { invalid, type Fault } from '#core/problem.ts';
import { comparableNames, notComparable, readFilters, readingOf, type Comparable } from './filter.ts';
import { readPage } from './page.ts';
import { FIELDS_MAX, membersOf, onlyValue } from './parameters.ts';
import { readZoom, type Relations } from './zoom.ts';

const ORDERS = 5;

/** What the items of a collection have: their properties, any other as well where `isOpen`, and what `zoom` may name. */
export type Listable = Comparable & { relations: Relations | undefined };

/** `fields` is null where all are asked for. */
export type Asked = { listing: Listing; fields: ReadonlySet<string> | null; zoom: Relations };

const unknownProperty = (name: string, field: string, possible: readonly string[]): Fault => ({
  code: 'unknown_property',
  message: `${field}: there is no property "${name}"; possible: ${possible.join(', ')}`,
  field,
});

const DIRECTIONS: Readonly<Record<string, boolean>> = { asc: false, desc: true };

const readOrder = (query: URLSearchParams, listable: Listable, faults: Fault[]): Order[] =>
  membersOf(query, 'order', ORDERS, faults).flatMap((member) => {
    const [property = '', direction = 'asc', ...more] = member.split(/\s+/);
    const comparison = readingOf(property, listable);
    if (comparison === undefined) faults.push(unknownProperty(property, 'order', comparableNames(listable)));
    else if (comparison === 'none') faults.push(notComparable(property, 'order', listable));
    else if (more.length === 0 && Object.hasOwn(DIRECTIONS, direction)) {
      return [{ property, descending: DIRECTIONS[direction] === true }];
    } else {
      const message = `order: after ${property} comes nothing, asc or desc`;
      faults.push({ code: 'invalid_parameter', message, field: 'order' });
    }
    return [];
  });

const readFields = (query: URLSearchParams, listable: Listable, faults: Fault[]): ReadonlySet<string> | null => {
  if (!query.has('fields')) return null;
  const names = membersOf(query, 'fields', FIELDS_MAX, faults);
  const { properties, isOpen } = listable;
  const unknown = isOpen ? [] : names.filter((name) => !Object.hasOwn(properties, name));
  faults.push(...unknown.map((name) => unknownProperty(name, 'fields', Object.keys(properties))));
  return new Set(names);
};

/** Returns the properties that `fields` names of one resource, null for all. Throws a 400 for each that it does not have. */
export const readFieldsOf = (
  query: URLSearchParams,
  properties: Comparable['properties'],
): ReadonlySet<string> | null => {
  const faults: Fault[] = [];
  const fields = readFields(query, { properties, isOpen: false, relations: undefined }, faults);
  if (faults.length > 0) throw invalid(...faults);
  return fields;
};

const readRelations = (query: URLSearchParams, { relations }: Listable, faults: Fault[]): Relations => {
  const text = relations === undefined ? undefined : onlyValue(query, 'zoom', faults);
  return relations === undefined || text === undefined ? {} : readZoom(text, relations, faults, 'zoom');
};

/** Throws a 400 with one entry for each thing that is wrong: unknown names, values that are none, repeated words. */
export const readListing = (query: URLSearchParams, listable: Listable): Asked => {
  const faults: Fault[] = [];
  const words = ['offset', 'limit', 'order', 'fields', ...(listable.relations === undefined ? [] : ['zoom'])];
  const filters = readFilters(query, words, listable, faults);
  const page = readPage(query, faults);
  const order = readOrder(query, listable, faults);
  const fields = readFields(query, listable, faults);
  const zoom = readRelations(query, listable, faults);
  if (faults.length > 0) throw invalid(...faults);
  return { listing: { ...page, order, filters }, fields, zoom };
};
