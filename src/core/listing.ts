/** A request for a page of a collection: offset, order and filters. `hypermedia/` parses it, queries apply it. */

/**
 * Type of comparison of a property. `none`: it cannot be ordered or filtered by, only selected. `filterOnly`: a text to filter by
 * that items do not contain.
 */
export type Comparison = 'text' | 'number' | 'date' | 'boolean' | 'none' | 'filterOnly';

/** All properties of the items, by name. */
export type Comparisons = Readonly<Record<string, Comparison>>;

/**
 * `null` means "not set". `like` takes a text with `*` for any characters, and `\*` and `\\` for the characters themselves.
 * Dates are compared as shown, to the second.
 *
 * For unknown properties of an open collection the type follows from the form of the value: number, date, or else text. With
 * `is` and `not`, `String(value)` of a number is the text that was sent.
 */
export type Filter = {
  property: string;
  operator: 'is' | 'not' | 'like' | 'unlike' | 'greaterthan' | 'lessthan';
  value: string | number | boolean | Date | null;
};

export type Order = { property: string; descending: boolean };

/** `order` is empty if the caller requested none. */
export type Listing = {
  offset: number;
  limit: number;
  order: readonly Order[];
  filters: readonly Filter[];
};
