/**
 * Filters: `name=x`, `name=*part*`, `name:not=x`, `date_created:greaterthan=…`, `date_created:lessthan=…`. An empty
 * value means "not set". In texts `*` matches any characters; `\*` and `\\` match `*` and `\`. Filters of webhooks also have
 * `name:in=a,b`, and JSON Pointers as names.
 */
import { isLonger } from '#core/text.ts';
import type { Comparison, Comparisons, Filter } from '#core/listing.ts';
import type { Fault } from '#core/problem.ts';
import { parseDate } from './date.ts';
import { onlyValue, otherNames, unknownParameter } from './paging.ts';

const FILTERS_MAX = 20;
const TEXT_CHARACTERS_MAX = 1_000;

/**
 * Properties that can be compared; with `isOpen` also any other name. `isPayload`: also members of members by a JSON Pointer
 * (RFC 6901), and the operator `in`.
 */
export type Comparable = { properties: Comparisons; isOpen: boolean; isPayload?: true };

/** `open`: the type of the values is not known. */
type ComparisonKind = Comparison | 'open' | undefined;

/** Names of publishers' properties without the separators of a query: blanks, `:`, `,` and `=`. */
const OPEN_NAME = /^[^\s\p{Cc}:,=]{1,64}$/u;
/** Parameters of every collection, supported or not, and members of a representation that are not properties. */
const RESERVED: ReadonlySet<string> = new Set(['offset', 'limit', 'order', 'fields', 'zoom', '_links', '_embedded']);

const POINTER = /^(?:\/(?:[^~/]|~[01])*)+$/;
const isPointer = (name: string): boolean => name.startsWith('/');

/** Returns how a property is compared; undefined for an unknown property. */
export function comparisonOf(name: string, { properties, isOpen, isPayload }: Comparable): ComparisonKind {
  if (isPayload && isPointer(name)) return POINTER.test(name) ? 'open' : undefined;
  if (Object.hasOwn(properties, name)) return properties[name];
  return isOpen && OPEN_NAME.test(name) && !RESERVED.has(name) ? 'open' : undefined;
}

/** Returns the names of properties to filter by, for messages. */
export function comparableNames({ properties, isOpen, isPayload }: Comparable): string[] {
  return [
    ...Object.keys(properties).filter((name) => properties[name] !== 'none'),
    ...(isOpen ? [isPayload ? 'any other property of the resource' : 'any other property of the items'] : []),
    ...(isPayload ? ['a JSON Pointer such as /_embedded/svc:items/0/code'] : []),
  ];
}

/** `possible`: the properties that can be used instead. */
export function notComparable(
  property: string,
  field: string,
  possible: readonly string[],
  use = 'sort or filter',
): Fault {
  const message = `${property} cannot be used to ${use}; possible: ${possible.join(', ')}`;
  return { code: 'invalid_parameter', message, field };
}

const OPERATORS = ['not', 'greaterthan', 'lessthan'] as const;
type Operator = 'is' | (typeof OPERATORS)[number];
const PAYLOAD_OPERATORS = [...OPERATORS, 'in'] as const;

const NUMBER = /^-?\d{1,16}(?:\.\d{1,10})?$/;

function numberOf(text: string): number | undefined {
  const value = NUMBER.test(text) ? Number(text) : NaN;
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : undefined;
}

const BOOLEANS: Readonly<Record<string, boolean>> = { 1: true, true: true, 0: false, false: false };

const textOf = (text: string): string | undefined =>
  isLonger(text, TEXT_CHARACTERS_MAX) || text.includes('\0') ? undefined : text;

const unescapeWildcards = (text: string): string => text.replaceAll(/\\([*\\])/g, '$1');

const isRange = (operator: Operator | 'in'): boolean => operator === 'greaterthan' || operator === 'lessthan';

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
} as const satisfies Record<string, (text: string, operator: Operator) => Filter['value'] | undefined>;
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
 * Returns the filter, or undefined for an invalid value. An empty value ("not set") cannot be compared by greater or
 * less.
 */
function filterOf(property: string, operator: Operator, text: string, valueKind: ValueKind): Filter | undefined {
  if (text === '') return isRange(operator) ? undefined : { property, operator, value: null };
  const isPattern = TEXTS.has(valueKind) && !isRange(operator) && WILDCARD.test(text);
  const value = isPattern ? textOf(text) : READERS[valueKind](text, operator);
  if (value === undefined) return undefined;
  if (isPattern) return { property, operator: operator === 'is' ? 'like' : 'unlike', value };
  return { property, operator, value: typeof value === 'string' ? unescapeWildcards(value) : value };
}

/** Returns the filter that a text property has with this value, which may contain `*`. */
export function textFilter(property: string, text: string): Filter | undefined {
  return filterOf(property, 'is', text, 'text');
}

type FilterContext = { query: URLSearchParams; reserved: readonly string[]; comparable: Comparable };

/** Splits the name of a parameter. The names in a JSON Pointer may contain colons, so only a known operator ends it. */
function splitName(name: string, { isPayload }: Comparable): [property: string, operator: string | undefined] {
  const isPath = isPayload === true && isPointer(name);
  const at = isPath ? name.lastIndexOf(':') : name.indexOf(':');
  if (at === -1) return [name, undefined];
  const operator = name.slice(at + 1);
  if (isPath && !PAYLOAD_OPERATORS.some((known) => known === operator)) return [name, undefined];
  return [name.slice(0, at), operator];
}

/** Commas after an even number of backslashes; `\,` is a comma within a value. */
const SEPARATOR = /(?<=(?:^|[^\\])(?:\\\\)*),/;

const valuesOf = (text: string): string[] => text.split(SEPARATOR).map((value) => value.replaceAll('\\,', ','));

/**
 * Returns the filters of one parameter, one of which must match, or a fault. There are several only with the operator
 * `in`.
 */
function readFilter(
  name: string,
  { query, reserved, comparable }: FilterContext,
  faults: Fault[],
): Filter[] | Fault | undefined {
  const [property, operatorName] = splitName(name, comparable);
  const comparison = comparisonOf(property, comparable);
  if (comparison === undefined) return unknownParameter(name, [...reserved, ...comparableNames(comparable)]);
  if (comparison === 'none') return notComparable(property, name, comparableNames(comparable));
  const operators = comparable.isPayload ? PAYLOAD_OPERATORS : OPERATORS;
  const operator = operatorName === undefined ? 'is' : operators.find((known) => known === operatorName);
  const isPossible = operator !== undefined && !(comparison === 'boolean' && isRange(operator));
  if (!isPossible) {
    const possible = comparison === 'boolean' ? ['not'] : operators;
    return unknownParameter(name, [property, ...possible.map((word) => `${property}:${word}`)]);
  }
  const text = onlyValue(query, name, faults);
  if (text === undefined) return undefined;
  const filters =
    operator === 'in'
      ? valuesOf(text).map((value) => filterOf(property, 'is', value, comparison))
      : [filterOf(property, operator, text, comparison)];
  const message = `${name} must be ${text === '' ? 'followed by a value to compare with' : EXPECTED[comparison]}`;
  const valid = filters.filter((filter) => filter !== undefined);
  return valid.length === filters.length ? valid : { code: 'invalid_parameter', message, field: name };
}

/**
 * Parses every parameter that is not in `reserved` as a condition, and adds faults. Of the filters of a condition, one must
 * match.
 */
export function readConditions(
  query: URLSearchParams,
  reserved: readonly string[],
  comparable: Comparable,
  faults: Fault[],
): Filter[][] {
  const names = otherNames(query, reserved);
  if (names.length > FILTERS_MAX) {
    faults.push({
      code: 'too_many',
      message: `At most ${FILTERS_MAX} filters can be given at once, not ${names.length}`,
    });
    return [];
  }
  return names.flatMap((name) => {
    const read = readFilter(name, { query, reserved, comparable }, faults);
    if (read === undefined) return [];
    if (Array.isArray(read)) return [read];
    faults.push(read);
    return [];
  });
}

/** Parses every parameter that is not in `reserved` as a filter, and adds faults. */
export function readFilters(
  query: URLSearchParams,
  reserved: readonly string[],
  comparable: Comparable,
  faults: Fault[],
): Filter[] {
  return readConditions(query, reserved, comparable, faults).flat();
}
