/** A request for a page of a collection: offset, order and filters. `hypermedia/` parses it, queries apply it. */

/**
 * Type of comparison of a property. `none`: it cannot be ordered or filtered by, only selected. `filterOnly`: a text to filter by
 * that items do not contain.
 */
export type Comparison = 'text' | 'number' | 'date' | 'boolean' | 'none' | 'filterOnly';

/** All properties of the items, by name. */
export type Comparisons = Readonly<Record<string, Comparison>>;

export const RANGES = ['greaterthan', 'lessthan', 'greaterthanorequal', 'lessthanorequal'] as const;
export type Range = (typeof RANGES)[number];

export function isRange(operator: string): operator is Range {
  return RANGES.some((range) => range === operator);
}

/**
 * `null` means "not set". `like` takes a text with `*` for any characters, and `\*` and `\\` for the characters themselves.
 * Dates are compared as shown, to the second.
 *
 * For unknown properties of an open collection the type follows from the form of the value: number, date, or else text. With
 * `is` and `not`, `String(value)` of a number is the text that was sent.
 */
export type Condition = {
  property: string;
  operator: 'is' | 'not' | 'like' | 'unlike' | Range;
  value: string | number | boolean | Date | null;
};

/** One condition, or with `in` several, of which one must be met: `is` or `like` of the same property. */
export type Filter = Condition | { property: string; operator: 'in'; value: readonly Condition[] };

/** Returns the conditions of a filter, of which one must be met. */
export function conditionsOf(filter: Filter): readonly Condition[] {
  return filter.operator === 'in' ? filter.value : [filter];
}

const SECOND_MS = 1_000;

/**
 * Returns the times in ms that a condition with a date admits, from `fromMs` up to, but without, `beforeMs`; for `not` those that it
 * excludes.
 */
export function timesOf({ operator }: Condition, value: Date): { fromMs: number; beforeMs: number } {
  const secondMs = Math.floor(value.getTime() / SECOND_MS) * SECOND_MS;
  const nextMs = secondMs + SECOND_MS;
  if (operator === 'greaterthan') return { fromMs: nextMs, beforeMs: Infinity };
  if (operator === 'greaterthanorequal') return { fromMs: secondMs, beforeMs: Infinity };
  if (operator === 'lessthan') return { fromMs: -Infinity, beforeMs: secondMs };
  if (operator === 'lessthanorequal') return { fromMs: -Infinity, beforeMs: nextMs };
  return { fromMs: secondMs, beforeMs: nextMs };
}

/** Returns whether a property is a member of a member, named by a JSON Pointer (RFC 6901). */
export function isPointer(property: string): boolean {
  return property.startsWith('/');
}

/**
 * A step to a member. `index`: that of an element if the value is an array, -1 if the step is none. A relation, below
 * `_embedded`, is found under its name with or without any prefix.
 */
export type Step = { name: string; index: number; isRelation: boolean };

/** Returns the steps of a JSON Pointer, or the one to a member with this name. */
export function stepsOf(property: string): Step[] {
  if (!isPointer(property)) return [{ name: property, index: -1, isRelation: false }];
  const steps = property.slice(1).split('/');
  return steps.map((step, at) => {
    const isRelation = steps[at - 1] === '_embedded';
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    return {
      name: isRelation ? name.slice(name.lastIndexOf(':') + 1) : name,
      index: /^(?:0|[1-9][0-9]{0,8})$/.test(step) ? Number(step) : -1,
      isRelation,
    };
  });
}

export type Order = { property: string; descending: boolean };

/** `order` is empty if the caller requested none. */
export type Listing = {
  offset: number;
  limit: number;
  order: readonly Order[];
  filters: readonly Filter[];
};
