/**
 * Parses the query of a collection: `offset`, `limit`, `order`, `fields`, `zoom` and filters. Reports all faults at
 * once.
 */
import type { Listing, Order } from '#core/listing.ts';
import { invalid, type Fault } from '#core/problem.ts';
import { comparableNames, notComparable, readFilters, comparisonOf, type Comparable } from './filter.ts';
import { FIELDS_MAX, membersOf, onlyValue, readPage } from './paging.ts';
import { readZoom, type Relations } from './zoom.ts';

export const ORDERS_MAX = 5;

/** Properties of the items of a collection (any others as well with `isOpen`), and relations that `zoom` may name. */
export type Listable = Comparable & { relations: Relations | undefined };

/** `fields` is null for all properties. */
export type ParsedListing = { listing: Listing; fields: ReadonlySet<string> | null; zoom: Relations };

const unknownProperty = (name: string, field: string, possible: readonly string[]): Fault => ({
  code: 'unknown_property',
  message: `${field}: there is no property "${name}"; possible: ${possible.join(', ')}`,
  field,
});

const DIRECTIONS: Readonly<Record<string, boolean>> = { asc: false, desc: true };

function readOrder(query: URLSearchParams, listable: Listable, faults: Fault[]): Order[] {
  const sortable = comparableNames(listable).filter((name) => listable.properties[name] !== 'filterOnly');
  return membersOf(query, 'order', ORDERS_MAX, faults).flatMap((member) => {
    const [property = '', direction = 'asc', ...more] = member.split(/\s+/);
    const comparison = comparisonOf(property, listable);
    if (comparison === undefined) faults.push(unknownProperty(property, 'order', sortable));
    else if (comparison === 'none') faults.push(notComparable(property, 'order', sortable));
    else if (comparison === 'filterOnly') faults.push(notComparable(property, 'order', sortable, 'sort'));
    else if (more.length === 0 && Object.hasOwn(DIRECTIONS, direction)) {
      return [{ property, descending: DIRECTIONS[direction] === true }];
    } else {
      const message = `order: ${property} may be followed by asc or desc only`;
      faults.push({ code: 'invalid_parameter', message, field: 'order' });
    }
    return [];
  });
}

function readFields(query: URLSearchParams, listable: Listable, faults: Fault[]): ReadonlySet<string> | null {
  if (!query.has('fields')) return null;
  const names = membersOf(query, 'fields', FIELDS_MAX, faults);
  const { properties, isOpen } = listable;
  const shown = Object.keys(properties).filter((name) => properties[name] !== 'filterOnly');
  const unknown = isOpen ? [] : names.filter((name) => !shown.includes(name));
  faults.push(...unknown.map((name) => unknownProperty(name, 'fields', shown)));
  return new Set(names);
}

/** Returns the properties of one resource that `fields` names, null for all. Throws a 400 for unknown ones. */
export function readFieldsOf(query: URLSearchParams, properties: Comparable['properties']): ReadonlySet<string> | null {
  const faults: Fault[] = [];
  const fields = readFields(query, { properties, isOpen: false, relations: undefined }, faults);
  if (faults.length > 0) throw invalid(...faults);
  return fields;
}

function readRelations(query: URLSearchParams, { relations }: Listable, faults: Fault[]): Relations {
  const text = relations === undefined ? undefined : onlyValue(query, 'zoom', faults);
  return relations === undefined || text === undefined ? {} : readZoom(text, relations, faults, 'zoom');
}

/** Parses the query. Throws a 400 with one entry per fault: unknown names, invalid values, repeated parameters. */
export function readListing(query: URLSearchParams, listable: Listable): ParsedListing {
  const faults: Fault[] = [];
  const reserved = ['offset', 'limit', 'order', 'fields', ...(listable.relations === undefined ? [] : ['zoom'])];
  const filters = readFilters(query, reserved, listable, faults);
  const page = readPage(query, faults);
  const order = readOrder(query, listable, faults);
  const fields = readFields(query, listable, faults);
  const zoom = readRelations(query, listable, faults);
  if (faults.length > 0) throw invalid(...faults);
  return { listing: { ...page, order, filters }, fields, zoom };
}
