/** What a caller wants of a collection: which page, in which order, narrowed to what. Read by hypermedia, obeyed by queries. */

/** How a property is compared; `none` where it cannot be ordered or narrowed by, only be asked for or left out. */
export type Comparison = 'text' | 'number' | 'date' | 'boolean' | 'none';

/** Every property of the items, by name. */
export type Comparisons = Readonly<Record<string, Comparison>>;

/**
 * A value of null is "not set". `like` has a text with `*` for anything, and `\*` and `\\` for the characters themselves. A date
 * is compared as it is shown, to the second.
 *
 * A property that an open collection does not know has a number or a date where the value looks like one, else a text. With
 * `is` and `not`, `String(value)` of a number is what was sent.
 */
export type Filter = {
  property: string;
  operator: 'is' | 'not' | 'like' | 'unlike' | 'greaterthan' | 'lessthan';
  value: string | number | boolean | Date | null;
};

export type Order = { property: string; descending: boolean };

/** `order` is empty where the caller does not care. */
export type Listing = {
  offset: number;
  limit: number;
  order: readonly Order[];
  filters: readonly Filter[];
};
