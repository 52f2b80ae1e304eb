/**
 * Filters of webhooks: `total_order:greaterthan=100&currency_code=EUR`, compiled to a predicate over a published resource. A
 * filter has the result of the same filter of a list in SQL (`db/list-conditions.ts`), in a database whose
 * locale is C.UTF-8, as of the embedded server; with another locale only the order and the case of letters may differ. Only patterns
 * are limited to the first characters of a text.
 */
import { createHash } from 'node:crypto';
import { ExactNumber, ZERO, parseExact, plus, readDecimal } from '#core/exact-number.ts';
import {
  conditionsOf,
  isRange,
  stepsOf,
  timesOf,
  type Comparisons,
  type Condition,
  type Filter,
  type Range,
} from '#core/listing.ts';
import type { Fault } from '#core/problem.ts';
import { codePoints } from '#core/text.ts';
import { isLocalDate, parseDate } from '#hypermedia/date.ts';
import { OPERATORS, readFilters } from '#hypermedia/list-query.ts';
import type { Value } from '#hypermedia/document.ts';
import { mapped, type ResourceType } from './catalog.ts';
import { memberAt, type JsonObject, isEncoded } from './resource-document.ts';
import { internalProperties } from './internal-types.ts';

/** The properties of every resource. In lists they are not members of the JSON; others are compared by the type that their values look like. */
export const PROPERTIES = { id: 'text', date_created: 'date', date_modified: 'date' } as const satisfies Comparisons;

/**
 * A published resource, with what several filters may compare: `texts`, the JSON texts of its members, and `folded`, the beginnings of
 * texts in lower case.
 */
type Payload = {
  id: string;
  modifiedAt: Date;
  resource: JsonObject;
  texts: Map<object, string>;
  folded: Map<string, string>;
};

/** `modifiedAt`: what the publish stored as the date of modification. */
export type PublishedVersion = { resourceId: string; modifiedAt: Date; body: string };

/** Parses a version once for all filters. */
export function payloadOf({ resourceId, modifiedAt, body }: PublishedVersion): Payload {
  return { id: resourceId, modifiedAt, resource: parseExact(body) as JsonObject, texts: new Map(), folded: new Map() };
}

/** `timeZone`: of the store at the time of publishing. */
export type FilteredEvent = {
  type: ResourceType;
  resourceId: string;
  publishedAt: Date;
  timeZone: string;
  body: string;
};

/** Does the same for an event, of which the date of modification is stored only in the body. */
export function payloadOfEvent({ type, resourceId, publishedAt, timeZone, body }: FilteredEvent): Payload {
  const payload = payloadOf({ resourceId, modifiedAt: publishedAt, body });
  const written = mapped(type, payload.resource).resource['date_modified'];
  const modifiedAt = typeof written === 'string' ? parseDate(written, timeZone) : undefined;
  return { ...payload, modifiedAt: modifiedAt ?? publishedAt };
}

/** Returns whether a resource passes a filter, or a condition of it. */
export type PayloadFilter = (payload: Payload) => boolean;

/** Returns the text that PostgreSQL's `->>` has for the value; null for an empty one. */
function textOf(value: Value | undefined, texts: Payload['texts']): string | null {
  if (typeof value === 'string') return value === '' ? null : value;
  if (value === undefined || value === null) return null;
  if (typeof value !== 'object' || value instanceof ExactNumber) return String(value);
  let text = texts.get(value);
  if (text === undefined) {
    text = JSON.stringify(value);
    texts.set(value, text);
  }
  return text;
}

/** Sorts surrogates, which encode the highest code points, after all other UTF-16 units. */
const rankOf = (unit: number): number => (unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800);

/** Compares texts by code points. */
function compareTexts(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let at = 0; at < length; at += 1) {
    const [left, right] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (left !== right) return rankOf(left) - rankOf(right);
  }
  return a.length - b.length;
}

/** Compares ids by length first, so that 10 is greater than 9. */
const compareIds = (a: string, b: string): number => codePoints(a) - codePoints(b) || compareTexts(a, b);

/** What SQL's `number_of` reads as a number. */
const NUMBER = /^-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$/;
const NUMBER_LENGTH_MAX = 60;

/** Returns a number below, above or equal to zero; NaN if the value is no number. */
function compareNumber(value: Value | undefined, limit: number): number {
  if (typeof value === 'number') return value - limit;
  if (typeof value !== 'string' && !(value instanceof ExactNumber)) return Number.NaN;
  const text = String(value);
  if (text.length > NUMBER_LENGTH_MAX || !NUMBER.test(text)) return Number.NaN;
  const rounded = Number(text);
  if (rounded !== limit) return rounded < limit ? -1 : 1;
  // Only texts with the same nearest double need exact arithmetic.
  const [exact, { digits, places }] = [readDecimal(text) ?? ZERO, readDecimal(limit) ?? ZERO];
  return Math.sign(Number(plus(exact, { digits: -digits, places }).digits));
}

/** What SQL's `moment_of` reads as a date. */
const MOMENT =
  /^([0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))(?:[T ]((?:[01][0-9]|2[0-3]):[0-5][0-9])(:[0-5][0-9])?([.][0-9]{1,9})?(?:Z|([+-](?:0[0-9]|1[0-4])):?([0-5][0-9]))?)?$/;

/** Returns the time in ms since 1970, to the µs; NaN if the value is no date. */
function momentOf(value: Value | undefined): number {
  if (typeof value !== 'string') return Number.NaN;
  const [whole, day, time = '00:00', seconds, fraction, hours = '+00', minutes = '00'] = MOMENT.exec(value) ?? [];
  if (whole === undefined || day === undefined || day.startsWith('0000')) return Number.NaN;
  if (fraction !== undefined && seconds === undefined) return Number.NaN;
  // Date reads 30 February as 2 March.
  const startMs = Date.parse(`${day}T00:00Z`);
  if (new Date(startMs).toISOString().slice(0, day.length) !== day) return Number.NaN;
  const ms = Date.parse(`${day}T${time}${seconds ?? ':00'}${hours}:${minutes}`);
  return fraction === undefined ? ms : ms + Math.round(Number(fraction) * 1e6) / 1e3;
}

/** Compares dates to the second, as they are shown. */
function momentTest(condition: Condition, value: Date): (ms: number) => boolean {
  const { fromMs, beforeMs } = timesOf(condition, value);
  const isWithin = (ms: number): boolean => ms >= fromMs && ms < beforeMs;
  return condition.operator === 'not' ? (ms) => !isWithin(ms) : isWithin;
}

/** Returns the text in lower case, letter by letter as in SQL: of these two, JavaScript's depends on their neighbours or has two. */
const folded = (text: string): string =>
  (/[İΣ]/.test(text) ? text.replaceAll('İ', 'i').replaceAll('Σ', 'σ') : text).toLowerCase();

type Part = {
  text: string;
  /** For each position, the length of the longest proper prefix of the part that ends there. */
  overlaps: Uint16Array;
};

function partOf(text: string): Part {
  // Two bytes each, because a process may keep 20,000 filters of 1,000 characters.
  const overlaps = new Uint16Array(text.length);
  let length = 0;
  for (let at = 1; at < text.length; at += 1) {
    while (length > 0 && text[at] !== text[length]) length = overlaps[length - 1] ?? 0;
    if (text[at] === text[length]) length += 1;
    overlaps[at] = length;
  }
  return { text, overlaps };
}

/**
 * Returns the end of the first occurrence after `from`, or -1, in time proportional to the text (Knuth, Morris, Pratt). `indexOf`
 * takes 138 ms for a part of 1,000 characters in 256 KiB that almost match everywhere.
 */
function endOf({ text: part, overlaps }: Part, text: string, from: number): number {
  let [at, length] = [from, 0];
  for (; length < part.length; at += 1) {
    if (at === text.length) return -1;
    const unit = text.charCodeAt(at);
    while (length > 0 && unit !== part.charCodeAt(length)) length = overlaps[length - 1] ?? 0;
    if (unit === part.charCodeAt(length)) length += 1;
  }
  return at;
}

/** Limits the time of a pattern: a store can have 2,000 of them, and an event texts of 256 KiB. */
const PATTERN_CHARACTERS_MAX = 16_384;

/** Returns what patterns compare of a text: its beginning, folded once for all of them. */
function beginningOf(text: string, known: Payload['folded']): string {
  const found = known.get(text);
  if (found !== undefined) return found;
  const beginning = folded(text.slice(0, PATTERN_CHARACTERS_MAX));
  known.set(text, beginning);
  return beginning;
}

/**
 * Returns the test of a folded text with `*` for any text. It finds the parts between the `*` from left to right; a regular
 * expression would try all combinations of places.
 */
function patternTest(pattern: string): (text: string) => boolean {
  const texts = [''];
  for (const [token, escaped] of pattern.matchAll(/\\([*\\])|[^]/g)) {
    if (token === '*') texts.push('');
    else texts.push((texts.pop() ?? '') + (escaped ?? token));
  }
  const [first = '', ...others] = texts.map(folded);
  const last = others.pop() ?? '';
  const parts = others.map(partOf);
  return (given) => {
    const end = given.length - last.length;
    if (end < first.length || !given.startsWith(first) || !given.endsWith(last)) return false;
    let from = first.length;
    for (const part of parts) {
      from = endOf(part, given, from);
      if (from === -1) return false;
    }
    return from <= end;
  };
}

const ZEROS = /^(-?[0-9]+)(?:[.]0+|([.][0-9]*[1-9])0+)$/;

/** Returns the test of a value that has the default spelling of this number, or is the text of it; 1 is true, and 0 is false. */
function numberTest(wanted: number): (value: Value | undefined) => boolean {
  const spelling = String(wanted);
  const flag = wanted === 1 ? true : wanted === 0 ? false : undefined;
  return (value) => {
    if (typeof value === 'number') return value === wanted;
    if (typeof value === 'string') return value === spelling || (flag !== undefined && value === String(flag));
    if (typeof value === 'boolean') return value === flag;
    return value instanceof ExactNumber && value.text.replace(ZEROS, '$1$2') === spelling;
  };
}

type Member = (payload: Payload) => Value | undefined;

function readerOf(property: string): Member {
  if (property === 'id') return ({ id }) => id;
  const steps = stepsOf(property);
  return ({ resource }) => memberAt(resource, steps);
}

/** The signs of a comparison with the value, for which NaN stands if there is none. */
const RANGE_TESTS: Readonly<Record<Range, (sign: number) => boolean>> = {
  greaterthan: (sign) => sign > 0,
  lessthan: (sign) => sign < 0,
  greaterthanorequal: (sign) => sign >= 0,
  lessthanorequal: (sign) => sign <= 0,
};

type Pattern = 'like' | 'unlike';

/** Returns the test of a text or null. */
function textTest(
  property: string,
  operator: Exclude<Condition['operator'], Pattern>,
  value: Condition['value'],
): (text: string | null) => boolean {
  if (value === null) return operator === 'is' ? (text) => text === null : (text) => text !== null;
  const wanted = String(value);
  if (operator === 'is') return (text) => text === wanted;
  if (operator === 'not') return (text) => text !== wanted;
  const compare = property === 'id' ? compareIds : compareTexts;
  const isInRange = RANGE_TESTS[operator];
  return (text) => text !== null && isInRange(compare(text, wanted));
}

function testOf(condition: Condition): PayloadFilter {
  const { property, operator, value } = condition;
  const member = readerOf(property);
  if (value instanceof Date) {
    const passes = momentTest(condition, value);
    return property === 'date_modified'
      ? (payload) => passes(payload.modifiedAt.getTime())
      : (payload) => passes(momentOf(member(payload)));
  }
  if (property === 'date_modified') return () => operator !== 'is';
  if (typeof value === 'number' && isRange(operator)) {
    const isInRange = RANGE_TESTS[operator];
    return (payload) => isInRange(compareNumber(member(payload), value));
  }
  if (typeof value === 'number') {
    const equals = numberTest(value);
    return operator === 'is' ? (payload) => equals(member(payload)) : (payload) => !equals(member(payload));
  }
  if (operator === 'like' || operator === 'unlike') {
    const [matches, isLike] = [patternTest(String(value)), operator === 'like'];
    return (payload) => {
      const text = textOf(member(payload), payload.texts);
      return (text !== null && matches(beginningOf(text, payload.folded))) === isLike;
    };
  }
  const passes = textTest(property, operator, value);
  return (payload) => passes(textOf(member(payload), payload.texts));
}

const fault = (message: string): Fault => ({ code: 'invalid_value', message: `filter: ${message}`, field: 'filter' });

/**
 * Returns a fault for each condition in the notation of programming languages. Without a `=`, or with the `=` of `>=`, it would
 * compare a property that has `>` in its name.
 */
function notationFaults(text: string): Fault[] {
  return text
    .split('&')
    .filter((condition) => condition !== '' && (!condition.includes('=') || /^[^=]*[<>!]=/.test(condition)))
    .map((condition) =>
      fault(
        `${condition} must be written as name=value or name:operator=value; possible operators: ${OPERATORS.join(', ')}`,
      ),
    );
}

function parse(text: string): { filters: Filter[]; faults: Fault[] } {
  const found: Fault[] = [];
  const filters = readFilters(new URLSearchParams(text), [], { properties: PROPERTIES, isOpen: true }, found);
  const faults = found.map(({ message }) => fault(message));
  faults.push(...notationFaults(text));
  if (!isEncoded(text)) faults.push(fault('must be percent-encoded UTF-8'));
  else if (filters.length + faults.length === 0) faults.push(fault('must have a condition such as currency_code=EUR'));
  return { filters, faults };
}

/**
 * Returns a fault for each date of the resource itself without an offset. A list reads it in the time zone of its store; a webhook has
 * its filter for longer than the store has its time zone.
 */
function zoneFaults(text: string): Fault[] {
  return [...new URLSearchParams(text)].flatMap(([name, value]) => {
    const [property = ''] = name.split(':', 1);
    const isDated = Object.hasOwn(PROPERTIES, property) && property !== 'id' && value.split(',').some(isLocalDate);
    return isDated ? [fault(`${name} must have an offset from UTC, as in 2026-11-20T00:00:00+0100`)] : [];
  });
}

/** Returns one fault for each condition that cannot be evaluated. */
export function payloadFilterFaults(text: string): Fault[] {
  return [...parse(text).faults, ...zoneFaults(text)];
}

/** Returns the query of a list with the resources that pass the filter; undefined if it names a property that the list does not have. */
export function listQueryOf(text: string, type: ResourceType): string | undefined {
  const [query, closed] = [new URLSearchParams(text), internalProperties(type)];
  const faults: Fault[] = [];
  const properties = closed ?? PROPERTIES;
  readFilters(query, [], { properties, isOpen: closed === undefined, isPublished: true }, faults);
  return faults.length > 0 ? undefined : String(query);
}

/**
 * Compiles a filter. Never throws: of a stored filter, in which a later version may find faults, the conditions without faults are
 * compared. The webhook then gets too many events, and the store can still publish.
 */
export function compileFilter(text: string): PayloadFilter {
  const tests = parse(text).filters.map((filter): PayloadFilter => {
    const all = conditionsOf(filter).map(testOf);
    return (payload) => all.some((test) => test(payload));
  });
  return (payload) => tests.every((test) => test(payload));
}

/** Returns the first 8 bytes of the SHA-256 of a filter as a signed integer. */
export function filterIdOf(text: string): bigint {
  return createHash('sha256').update(text).digest().readBigInt64BE();
}
