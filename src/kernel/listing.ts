/** What a caller wants of a collection: which page, in which order, narrowed to what. Read by hypermedia, obeyed by queries. */

/** How a property is compared; `none` where it cannot be ordered or narrowed by, only be asked for or left out. */
export type Comparison = 'text' | 'number' | 'date' | 'boolean' | 'none';

/** Every property of the items, by name. */
export type Comparisons = Readonly<Record<string, Comparison>>;

/** `like` has `*` for anything in its value, which is a text. A value of null is "not set". */
export type Filter = {
  property: string;
  operator: 'is' | 'not' | 'like' | 'unlike' | 'greaterthan' | 'lessthan';
  value: string | number | boolean | Date | null;
};

export type Order = { property: string; descending: boolean };

export type Listing = {
  offset: number;
  limit: number;
  order: readonly Order[];
  filters: readonly Filter[];
};
