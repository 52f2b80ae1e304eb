/**
 * Parses the query of a collection: `offset`, `limit`, `order`, `fields`, `zoom` and filters. Reports all faults at once.
 *
 * Filters: `name=x`, `name=*part*`, `name:not=x`, `name:in=a,b`, `name:isnull=1`, `date_created:greaterthan=…`,
 * `date_created:lessthanorequal=…`. An empty value means "not set". In texts `*` matches any characters; `\*` and `\\` match `*`
 * and `\`, and in the values of `in` `\,` is a comma. A member of a member of published JSON is named by a JSON Pointer (RFC 6901).
 */
import { type Fault, invalid } from '#core/problem.ts';
import { isLonger } from '#core/text.ts';
import {
  conditionsOf,
  isPointer,
  isRange,
  RANGES,
  stepsOf,
  type Comparison,
  type Comparisons,
  type Condition,
  type Filter,
  type Range,
  type Listing,
  type Order,
} from '#core/listing.ts';
import { parseDate } from './date.ts';
import { onlyValue, otherNames, unknownParameter, FIELDS_MAX, membersOf, readPage } from './paging.ts';

/** The relations below each name. */
export type Relations = { readonly [name: string]: Relations };

export const ZOOM_DEPTH = 4;
export const ZOOM_PATHS = 50;

/** Returns the tree of existing relations; adds a fault for each unknown path. */
export function readZoom(text: string, known: Relations, faults: Fault[], field: string): Relations {
  type Tree = { [name: string]: Tree };
  const tree: Tree = {};
  const paths = text.split(',').map((path) => path.trim().split(':'));
  if (paths.length > ZOOM_PATHS || paths.some((path) => path.length > ZOOM_DEPTH)) {
    faults.push({
      code: 'too_many',
      message: `zoom takes at most ${ZOOM_PATHS} paths of ${ZOOM_DEPTH} relations`,
      field,
    });
    return tree;
  }
  for (const path of paths) {
    let level = known;
    let branch = tree;
    for (const name of path) {
      const child = Object.hasOwn(level, name) ? level[name] : undefined;
      if (child === undefined) {
        const possible = Object.keys(level).join(', ') || 'none';
        const message = `zoom: there is no relation "${name}" in "${path.join(':')}"; possible: ${possible}`;
        faults.push({ code: 'unknown_relation', message, field });
        break;
      }
      level = child;
      branch = branch[name] ??= {};
    }
  }
  return tree;
}

const FILTERS_MAX = 20;
/** Values of one `in`; a filter of a webhook, of 1,000 characters, has fewer. */
const VALUES_MAX = 500;
/** Values with `*`, which are compared one by one with each item. */
const PATTERNS_MAX = 20;
const TEXT_CHARACTERS_MAX = 1_000;
/** More than lead to a member of the deepest resource. */
const STEPS_MAX = 32;
/** As `zoom`. PostgreSQL's memory for a statement doubles with each. */
const RELATIONS_MAX = 4;

/**
 * Properties that can be compared; with `isOpen` also any other name. `isPublished`: the items are published JSON, whose members of
 * members are compared, too: without `isOpen` those below properties that cannot be compared themselves.
 */
type Comparable = { properties: Comparisons; isOpen: boolean; isPublished?: boolean };

/** `open`: the type of the values is not known. */
type ComparisonKind = Comparison | 'open' | undefined;

/** Names of publishers' properties without the separators of a query: blanks, `:`, `,` and `=`. */
const OPEN_NAME = /^[^\s\p{Cc}:,=]{1,64}$/u;
/** Parameters of every collection, supported or not, and members of a representation that are not properties. */
const RESERVED: ReadonlySet<string> = new Set([
  'offset',
  'limit',
  'order',
  'fields',
  'zoom',
  'links',
  '_links',
  '_embedded',
]);

const POINTER = /^(?:\/(?:[^~/\p{Cc}]|~[01])*)+$/u;

function isPossiblePointer(name: string, { properties, isOpen }: Comparable): boolean {
  if (!POINTER.test(name) || isLonger(name, TEXT_CHARACTERS_MAX)) return false;
  const steps = stepsOf(name);
  const [{ name: first } = { name: '' }, ...more] = steps;
  if (steps.length > STEPS_MAX || steps.filter(({ isRelation }) => isRelation).length > RELATIONS_MAX) return false;
  return isOpen || (more.length > 0 && Object.hasOwn(properties, first) && properties[first] === 'none');
}

/** Returns how a property is compared; undefined for an unknown property. */
function comparisonOf(name: string, comparable: Comparable): ComparisonKind {
  const { properties, isOpen, isPublished = isOpen } = comparable;
  if (isPointer(name)) return isPublished && isPossiblePointer(name, comparable) ? 'open' : undefined;
  if (Object.hasOwn(properties, name)) return properties[name];
  return isOpen && OPEN_NAME.test(name) && !RESERVED.has(name) ? 'open' : undefined;
}

/** Returns the names of properties to filter by, for messages. */
function comparableNames({ properties, isOpen, isPublished = isOpen }: Comparable): string[] {
  const names = Object.keys(properties);
  const structured = names.filter((name) => properties[name] === 'none');
  return [
    ...names.filter((name) => properties[name] !== 'none'),
    ...(isOpen ? ['any other property', 'a JSON Pointer such as /_embedded/svc:items/0/code'] : []),
    ...(isPublished && !isOpen ? structured.map((name) => `a JSON Pointer below /${name}`) : []),
  ];
}

/** `possible`: the properties that can be used instead. */
function notComparable(property: string, field: string, possible: readonly string[], use = 'sort or filter'): Fault {
  const message = `${property} cannot be used to ${use}; possible: ${possible.join(', ')}`;
  return { code: 'invalid_parameter', message, field };
}

/** The ends of names of parameters; without one, a value is compared for equality. */
export const OPERATORS = ['not', 'in', ...RANGES, 'isnull'] as const;
type Operator = 'is' | 'not' | Range;

/** Returns the operators of a kind of comparison: a boolean is not less than another one. */
export function operatorsOf(comparison: ComparisonKind): readonly (typeof OPERATORS)[number][] {
  return comparison === 'boolean' ? OPERATORS.filter((operator) => !isRange(operator)) : OPERATORS;
}

const NUMBER = /^-?\d{1,16}(?:\.\d{1,10})?$/;

function numberOf(text: string): number | undefined {
  const value = NUMBER.test(text) ? Number(text) : NaN;
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : undefined;
}

const BOOLEANS: Readonly<Record<string, boolean>> = { 1: true, true: true, 0: false, false: false };

const textOf = (text: string): string | undefined =>
  isLonger(text, TEXT_CHARACTERS_MAX) || text.includes('\0') ? undefined : text;

const unescapeWildcards = (text: string): string => text.replaceAll(/\\([*\\])/g, '$1');

/**
 * Parses a value of unknown type as a number or date if possible. For equality a number must have its default spelling,
 * so that `String(value)` is the input: the postal code 01234 stays a text.
 */
function parseOpenValue(text: string, operator: Operator): string | number | Date | undefined {
  const value = numberOf(text);
  if (value !== undefined && (isRange(operator) || String(value) === text)) return value;
  return parseDate(text) ?? textOf(text);
}

const READERS = {
  text: textOf,
  filterOnly: textOf,
  number: numberOf,
  boolean: (text: string) => (Object.hasOwn(BOOLEANS, text) ? BOOLEANS[text] : undefined),
  date: (text: string) => parseDate(text),
  open: parseOpenValue,
} as const satisfies Record<string, (text: string, operator: Operator) => Condition['value'] | undefined>;
type ValueKind = keyof typeof READERS;

const TEXT_EXPECTED = `a text of at most ${TEXT_CHARACTERS_MAX} characters without NUL`;
const EXPECTED: Readonly<Record<ValueKind, string>> = {
  text: TEXT_EXPECTED,
  filterOnly: TEXT_EXPECTED,
  number: 'a number',
  boolean: '1 or 0',
  date: 'a date such as 2026-11-20 or 2026-11-20T16:05:03+0000',
  open: TEXT_EXPECTED,
};

/** Kinds whose values may be patterns. */
const TEXTS: ReadonlySet<ValueKind> = new Set(['text', 'filterOnly', 'open']);

/** An unescaped `*`. */
const WILDCARD = /(?<!\\)(?:\\\\)*\*/;

/**
 * Returns the condition, or undefined for an invalid value. An empty value ("not set") cannot be compared by greater or
 * less.
 */
function conditionOf(property: string, operator: Operator, text: string, valueKind: ValueKind): Condition | undefined {
  if (text === '') return isRange(operator) ? undefined : { property, operator, value: null };
  const isPattern = TEXTS.has(valueKind) && !isRange(operator) && WILDCARD.test(text);
  const value = isPattern ? textOf(text) : READERS[valueKind](text, operator);
  if (value === undefined) return undefined;
  if (isPattern) return { property, operator: operator === 'is' ? 'like' : 'unlike', value };
  return { property, operator, value: typeof value === 'string' ? unescapeWildcards(value) : value };
}

/** Returns the condition that a text property has with this value, which may contain `*`. */
export function textFilter(property: string, text: string): Condition | undefined {
  return conditionOf(property, 'is', text, 'text');
}

type FilterContext = { query: URLSearchParams; reserved: readonly string[]; comparable: Comparable };

/** Splits the name of a parameter. The names in a JSON Pointer may contain colons, so only a known operator ends it. */
export function splitName(name: string): [property: string, operator: string | undefined] {
  const at = isPointer(name) ? name.lastIndexOf(':') : name.indexOf(':');
  const operator = name.slice(at + 1);
  const isWhole = at === -1 || (isPointer(name) && !OPERATORS.some((known) => known === operator));
  return isWhole ? [name, undefined] : [name.slice(0, at), operator];
}

/** Commas after an even number of backslashes; `\,` is a comma within a value. */
const SEPARATOR = /(?<=(?:^|[^\\])(?:\\\\)*),/;

const valuesOf = (text: string): string[] => [
  ...new Set(text.split(SEPARATOR).map((value) => value.replaceAll('\\,', ','))),
];

/** Returns the filter of one parameter, or a fault. */
function readFilter(
  name: string,
  { query, reserved, comparable }: FilterContext,
  faults: Fault[],
): Filter | Fault | undefined {
  const [property, operatorName] = splitName(name);
  const comparison = comparisonOf(property, comparable);
  const names = comparableNames(comparable);
  const { isOpen, isPublished = isOpen } = comparable;
  if (isPointer(property) && !isPublished)
    return notComparable(property, name, names, 'filter this list, which is not one of published resources');
  if (comparison === undefined) return unknownParameter(name, [...reserved, ...names]);
  if (comparison === 'none') return notComparable(property, name, names);
  const possible = operatorsOf(comparison);
  const operator = operatorName === undefined ? 'is' : possible.find((known) => known === operatorName);
  if (operator === undefined)
    return unknownParameter(name, [property, ...possible.map((word) => `${property}:${word}`)]);
  const text = onlyValue(query, name, faults);
  if (text === undefined) return undefined;
  const invalidValue = (expected: string): Fault => {
    return { code: 'invalid_parameter', message: `${name} must be ${expected}`, field: name };
  };
  if (operator === 'isnull') {
    const isNull = READERS.boolean(text);
    if (isNull === undefined) return invalidValue(EXPECTED.boolean);
    return { property, operator: isNull ? 'is' : 'not', value: null };
  }
  if (operator !== 'in') {
    const expected = text === '' ? 'followed by a value to compare with' : EXPECTED[comparison];
    return conditionOf(property, operator, text, comparison) ?? invalidValue(expected);
  }
  const values = valuesOf(text);
  if (values.length > VALUES_MAX) return invalidValue(`at most ${VALUES_MAX} values, separated by commas`);
  const conditions = values.map((value) => conditionOf(property, 'is', value, comparison));
  const valid = conditions.filter((condition) => condition !== undefined);
  if (valid.length < conditions.length) return invalidValue(`values separated by commas, each ${EXPECTED[comparison]}`);
  return { property, operator, value: valid };
}

/** Parses every parameter that is not in `reserved` as a filter, and adds faults. */
export function readFilters(
  query: URLSearchParams,
  reserved: readonly string[],
  comparable: Comparable,
  faults: Fault[],
): Filter[] {
  const names = otherNames(query, reserved);
  if (names.length > FILTERS_MAX) {
    faults.push({
      code: 'too_many',
      message: `At most ${FILTERS_MAX} filters can be given at once, not ${names.length}`,
    });
    return [];
  }
  const filters = names.flatMap((name) => {
    const read = readFilter(name, { query, reserved, comparable }, faults);
    if (read === undefined) return [];
    if ('operator' in read) return [read];
    faults.push(read);
    return [];
  });
  const patterns = filters.flatMap(conditionsOf).filter(({ operator }) => operator === 'like' || operator === 'unlike');
  if (patterns.length > PATTERNS_MAX) {
    const message = `At most ${PATTERNS_MAX} values with * can be given at once, not ${patterns.length}`;
    faults.push({ code: 'too_many', message });
  }
  return filters;
}

export const ORDERS_MAX = 5;

/** Properties of the items of a collection (any others as well with `isOpen`), and relations that `zoom` may name. */
export type Listable = Comparable & { relations: Relations | undefined };

/** `fields` is null for all properties. */
type ParsedListing = { listing: Listing; fields: ReadonlySet<string> | null; zoom: Relations };

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
