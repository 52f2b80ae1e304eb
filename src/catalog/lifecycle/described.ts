/** What differs between two versions of a subscription, as it was and as it is: in few words, because every step carries it. */
import type { Value } from '#hypermedia/document.ts';
import { embeddedUnder, isObject, type JsonObject } from '../document.ts';
import { differencesBetween, memberOf, OWN_RELATIONS } from './difference.ts';
import type { Subscription } from './facts.ts';

/** So many properties, or things of a list, are told of. */
const TOLD_MAX = 20;
export const SHORT_LENGTH_MAX = 200;
/** Twenty things with a name and a price have room; twenty with the longest words would make a step of 50 KiB. */
const LIST_MAX_BYTES = 2 * 1024;

/** No object, no list, and no long text. */
export const isShort = (value: Value | undefined): boolean => {
  if (typeof value === 'string') return value.length <= SHORT_LENGTH_MAX;
  return typeof value !== 'object' || value === null;
};

type Sides = readonly [was: Value, is: Value];

const isSame = ([was, is]: Sides): boolean => JSON.stringify(was) === JSON.stringify(is);

/** Of a thing that is bought, or of an attribute: what it is, and what it costs or says. */
const NAMED = ['id', 'code', 'name', 'price', 'quantity', 'value'] as const;

const briefly = (item: JsonObject): JsonObject =>
  Object.fromEntries(
    NAMED.flatMap((name): [string, Value][] => {
      const value = memberOf(item, name);
      return value !== undefined && isShort(value) ? [[name, value]] : [];
    }),
  );

/** As many of a list as have room. */
const listed = (value: Value | undefined): Value => {
  const all = (Array.isArray(value) ? (value as readonly Value[]) : []).filter(isObject).slice(0, TOLD_MAX);
  let bytes = 0;
  return all.map(briefly).filter((item) => {
    bytes += Buffer.byteLength(JSON.stringify(item));
    return bytes <= LIST_MAX_BYTES;
  });
};

/** Short values under the names in which two objects differ. */
const membersOf = (was: JsonObject, is: JsonObject, names: readonly string[]): [name: string, sides: Sides][] =>
  names
    .filter((name) => name.length <= SHORT_LENGTH_MAX)
    .map((name) => [name, memberOf(was, name), memberOf(is, name)] as const)
    .filter(([, ...sides]) => sides.every(isShort) && sides.some((side) => side !== undefined))
    .map(([name, before, after]) => [name, [before ?? null, after ?? null]]);

const sideOf = (entries: readonly [name: string, sides: Sides][], side: 0 | 1): JsonObject =>
  Object.fromEntries(entries.slice(0, TOLD_MAX).map(([name, sides]) => [name, sides[side]]));

/** What is embedded: a list in the words of its things, a template in its own and those of its items. */
const embeddedSides = (was: Value | undefined, is: Value | undefined): Sides => {
  if (!isObject(was) || !isObject(is)) return [listed(was), listed(is)];
  const items: Sides = [listed(embeddedUnder(was, 'items')), listed(embeddedUnder(is, 'items'))];
  const entries = membersOf(was, is, differencesBetween(was, is));
  if (!isSame(items)) entries.unshift(['items', items]);
  return [sideOf(entries, 0), sideOf(entries, 1)];
};

/** `differing` is what `differencesBetween` found. What is longer, or deeper, is left out. */
export const toldBetween = (
  before: Subscription,
  after: Subscription,
  differing: readonly string[],
): { before: JsonObject; after: JsonObject } => {
  const relations = OWN_RELATIONS.filter((name) => differing.includes(name)).map((name): [string, Sides] => [
    name,
    embeddedSides(embeddedUnder(before, name), embeddedUnder(after, name)),
  ]);
  const entries = [...relations.filter(([, sides]) => !isSame(sides)), ...membersOf(before, after, differing)];
  return { before: sideOf(entries, 0), after: sideOf(entries, 1) };
};
