/**
 * Filters: `name=x`, `name=*part*`, `name:not=x`, `date_created:greaterthan=…`, `date_created:lessthan=…`. An empty value
 * means "not set". In a text `*` stands for anything; `\*` and `\\` are the characters themselves.
 */
import { isLonger } from '#core/length.ts';
import type { Comparison, Comparisons, Filter } from '#core/listing.ts';
import type { Fault } from '#core/problem.ts';
import { parseDate } from './date.ts';
import { onlyValue, otherNames, unknownParameter } from './parameters.ts';

const FILTERS = 20;
const TEXT_CHARACTERS = 1_000;

/** What can be compared: the known properties, and where `isOpen` whatever looks like one. */
export type Comparable = { properties: Comparisons; isOpen: boolean };

/** `open`: nobody knows what kind of values it has. */
type Reading = Comparison | 'open' | undefined;

/** Whatever a publisher may have called it, but for what parts a query: blanks, `:`, `,` and `=`. */
const OPEN_NAME = /^[^\s\p{Cc}:,=]{1,64}$/u;
/** Words of every collection, which no property can take away, also where one of them is of no use. */
const RESERVED: ReadonlySet<string> = new Set(['offset', 'limit', 'order', 'fields', 'zoom']);

/** How a property is compared; undefined where there is no such property. */
export const readingOf = (name: string, { properties, isOpen }: Comparable): Reading => {
  if (Object.hasOwn(properties, name)) return properties[name];
  return isOpen && OPEN_NAME.test(name) && !RESERVED.has(name) ? 'open' : undefined;
};

/** The names of those that can be ordered and narrowed by, for messages. */
export const comparableNames = ({ properties, isOpen }: Comparable): string[] => [
  ...Object.keys(properties).filter((name) => properties[name] !== 'none'),
  ...(isOpen ? ['any other property of the items'] : []),
];

export const notComparable = (property: string, field: string, comparable: Comparable): Fault => ({
  code: 'invalid_parameter',
  message: `${property} is only shown, nothing is ordered or found by it; possible: ${comparableNames(comparable).join(', ')}`,
  field,
});

const OPERATORS = ['not', 'greaterthan', 'lessthan'] as const;
type Written = 'is' | (typeof OPERATORS)[number];

const NUMBER = /^-?\d{1,16}(?:\.\d{1,10})?$/;

const numberOf = (text: string): number | undefined => {
  const value = NUMBER.test(text) ? Number(text) : NaN;
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : undefined;
};

const BOOLEANS: Readonly<Record<string, boolean>> = { 1: true, true: true, 0: false, false: false };

const textOf = (text: string): string | undefined =>
  isLonger(text, TEXT_CHARACTERS) || text.includes('\0') ? undefined : text;

const exactly = (text: string): string => text.replaceAll(/\\([*\\])/g, '$1');

const isRange = (operator: Written): boolean => operator === 'greaterthan' || operator === 'lessthan';

/**
 * Where the kind is not known, what looks like a date or a number is one. To be equal a number must be spelled as it is
 * written by default, so that `String(value)` is what was sent: the postal code 01234 stays a text.
 */
const openOf = (text: string, operator: Written): string | number | Date | undefined => {
  const value = numberOf(text);
  if (value !== undefined && (isRange(operator) || String(value) === text)) return value;
  return parseDate(text) ?? textOf(text);
};

const READERS = {
  text: textOf,
  number: numberOf,
  boolean: (text: string) => (Object.hasOwn(BOOLEANS, text) ? BOOLEANS[text] : undefined),
  date: parseDate,
  open: openOf,
} as const satisfies Record<string, (text: string, operator: Written) => Filter['value'] | undefined>;
type Comparing = keyof typeof READERS;

const EXPECTED: Readonly<Record<Comparing, string>> = {
  text: `a text of at most ${TEXT_CHARACTERS} characters, none of them NUL`,
  number: 'a number',
  boolean: '1 or 0',
  date: 'a date such as 2026-11-20 or 2026-11-20T16:05:03+0000',
  open: `a text of at most ${TEXT_CHARACTERS} characters, none of them NUL`,
};

/** A `*` that no backslash takes for itself. */
const WILDCARD = /(?<!\\)(?:\\\\)*\*/;

/** Undefined where the text is no such value. A date or a number is greater than "not set" no more than it is less. */
const filterOf = (property: string, operator: Written, text: string, comparing: Comparing): Filter | undefined => {
  if (text === '') return isRange(operator) ? undefined : { property, operator, value: null };
  const isText = comparing === 'text' || comparing === 'open';
  const isPattern = isText && !isRange(operator) && WILDCARD.test(text);
  const value = isPattern ? textOf(text) : READERS[comparing](text, operator);
  if (value === undefined) return undefined;
  if (isPattern) return { property, operator: operator === 'is' ? 'like' : 'unlike', value };
  return { property, operator, value: typeof value === 'string' ? exactly(value) : value };
};

type Asked = { query: URLSearchParams; words: readonly string[]; comparable: Comparable };

/** The filter of one parameter, or what is wrong with it. */
const readFilter = (name: string, { query, words, comparable }: Asked, faults: Fault[]): Filter | Fault | undefined => {
  const [property = '', ...rest] = name.split(':');
  const written = rest.join(':');
  const comparison = readingOf(property, comparable);
  if (comparison === undefined) return unknownParameter(name, [...words, ...comparableNames(comparable)]);
  if (comparison === 'none') return notComparable(property, name, comparable);
  const operator = rest.length === 0 ? 'is' : OPERATORS.find((known) => known === written);
  const isPossible = operator !== undefined && !(comparison === 'boolean' && isRange(operator));
  if (!isPossible) {
    const possible = comparison === 'boolean' ? ['not'] : OPERATORS;
    return unknownParameter(name, [property, ...possible.map((word) => `${property}:${word}`)]);
  }
  const text = onlyValue(query, name, faults);
  if (text === undefined) return undefined;
  const message = `${name} must be ${EXPECTED[comparison]}`;
  return filterOf(property, operator, text, comparison) ?? { code: 'invalid_parameter', message, field: name };
};

/** Every parameter that is not one of `words` is a filter, or a fault. */
export const readFilters = (
  query: URLSearchParams,
  words: readonly string[],
  comparable: Comparable,
  faults: Fault[],
): Filter[] => {
  const names = otherNames(query, words);
  if (names.length > FILTERS) {
    faults.push({ code: 'too_many', message: `At most ${FILTERS} filters can be given at once, not ${names.length}` });
    return [];
  }
  return names.flatMap((name) => {
    const read = readFilter(name, { query, words, comparable }, faults);
    if (read === undefined) return [];
    if ('operator' in read) return [read];
    faults.push(read);
    return [];
  });
};
