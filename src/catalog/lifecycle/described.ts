/** Summarizes the differences between two versions of a subscription. The summary is short because every step contains it. */
import { isScalar, type Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from '../document.ts';
import { differencesBetween, memberOf, OWN_RELATIONS } from './difference.ts';
import type { Subscription } from './facts.ts';

/** Maximum number of properties, or of items in a list. */
const ENTRIES_MAX = 20;
export const SHORT_LENGTH_MAX = 200;
/** Enough for twenty items with a name and a price; twenty items with the longest texts would make a step of 50 KiB. */
const LIST_MAX_BYTES = 2 * 1024;

/** Returns whether a value is neither an object, nor a list, nor a long text. */
export function isShort(value: Value | undefined): boolean {
  if (typeof value === 'string') return value.length <= SHORT_LENGTH_MAX;
  return value === undefined || isScalar(value);
}

type Sides = readonly [was: Value, is: Value];

const isSame = ([was, is]: Sides): boolean => JSON.stringify(was) === JSON.stringify(is);

/** Properties in the summary of an item or an attribute. */
const SUMMARY_PROPERTIES = ['id', 'code', 'name', 'price', 'quantity', 'value'] as const;

const summarize = (item: JsonObject): JsonObject =>
  Object.fromEntries(
    SUMMARY_PROPERTIES.flatMap((name): [string, Value][] => {
      const value = memberOf(item, name);
      return value !== undefined && isShort(value) ? [[name, value]] : [];
    }),
  );

/** Returns the summaries of as many items as fit. */
function summarizeList(value: Value | undefined): Value {
  const all = (Array.isArray(value) ? (value as readonly Value[]) : []).filter(isObject).slice(0, ENTRIES_MAX);
  let bytes = 0;
  return all.map(summarize).filter((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item));
    return bytes <= LIST_MAX_BYTES;
  });
}

/** Returns the short values of the properties that differ. */
const membersOf = (was: JsonObject, is: JsonObject, names: readonly string[]): [name: string, sides: Sides][] =>
  names
    .filter((name) => name.length <= SHORT_LENGTH_MAX)
    .map((name) => [name, memberOf(was, name), memberOf(is, name)] as const)
    .filter(([, ...sides]) => sides.every(isShort) && sides.some((side) => side !== undefined))
    .map(([name, before, after]) => [name, [before ?? null, after ?? null]]);

const sideOf = (entries: readonly [name: string, sides: Sides][], side: 0 | 1): JsonObject =>
  Object.fromEntries(entries.slice(0, ENTRIES_MAX).map(([name, sides]) => [name, sides[side]]));

/** Returns the differences of an embedded list, or of an embedded template and its items. */
function embeddedSides(was: Value | undefined, is: Value | undefined, timeZone: string): Sides {
  if (!isObject(was) || !isObject(is)) return [summarizeList(was), summarizeList(is)];
  const items: Sides = [summarizeList(embeddedUnder(was, 'items')), summarizeList(embeddedUnder(is, 'items'))];
  const entries = membersOf(was, is, differencesBetween(was, is, timeZone));
  if (!isSame(items)) entries.unshift(['items', items]);
  return [sideOf(entries, 0), sideOf(entries, 1)];
}

/**
 * Returns the changed properties before and after. `differing` is the result of `differencesBetween`; long and nested values
 * are omitted.
 */
export function changesBetween(
  before: Subscription,
  after: Subscription,
  { differing, timeZone }: { differing: readonly string[]; timeZone: string },
): { before: JsonObject; after: JsonObject } {
  const relations = OWN_RELATIONS.filter((name) => differing.includes(name)).map((name): [string, Sides] => [
    name,
    embeddedSides(embeddedUnder(before, name), embeddedUnder(after, name), timeZone),
  ]);
  const entries = [...relations.filter(([, sides]) => !isSame(sides)), ...membersOf(before, after, differing)];
  return { before: sideOf(entries, 0), after: sideOf(entries, 1) };
}
