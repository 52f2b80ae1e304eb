/** What a caller wants of a collection, as SQL: fragments for the `where`, the `order by` and the page of a statement. */
import type postgres from 'postgres';
import type { Comparisons, Filter, Listing, Order } from '#core/listing.ts';
import type { Queryable } from './pool.ts';

type Fragment = postgres.Fragment;

/** A property's expression, for each that is compared: what is declared and has none does not compile. */
export type Columns<Properties extends Comparisons> = {
  readonly [Name in keyof Properties as Properties[Name] extends 'none' ? never : Name]: Fragment;
};

type AnyColumns = Readonly<Record<string, Fragment>>;

const columnOf = (columns: AnyColumns, property: string): Fragment => {
  const column = Object.hasOwn(columns, property) ? columns[property] : undefined;
  // Names of columns never come from a query: whoever reads one has looked for it among the declared properties.
  if (column === undefined) throw new TypeError(`The property ${property} is declared, but has no column`);
  return column;
};

/** `*` is anything; `%` and `_`, which are LIKE's, stand for themselves, and so does what a backslash is put before. */
const patternOf = (text: string): string =>
  text.replaceAll(/\\([*\\])|([%_\\])|\*/g, (_whole, escaped?: string, special?: string) => {
    if (escaped !== undefined) return escaped === '*' ? '*' : String.raw`\\`;
    return special === undefined ? '%' : `\\${special}`;
  });

/** A whole number stays one for PostgreSQL, too: as a numeric it would find no index of an integer. */
const valueOf = (sql: Queryable, value: string | number | boolean): Fragment => {
  if (typeof value === 'boolean') return sql`${value}::boolean`;
  if (typeof value === 'string') return sql`${value}::text`;
  return Number.isInteger(value) ? sql`${value}::bigint` : sql`${value}::numeric`;
};

/** Dates are shown to the second and compared as they are shown, without a function on the column: an index can be used. */
const dateCondition = (sql: Queryable, column: Fragment, operator: Filter['operator'], value: Date): Fragment => {
  const at = sql`date_trunc('second', ${value}::timestamptz)`;
  const after = sql`${at} + interval '1 second'`;
  if (operator === 'greaterthan') return sql`${column} >= ${after}`;
  if (operator === 'lessthan') return sql`${column} < ${at}`;
  const same = sql`(${column} >= ${at} and ${column} < ${after})`;
  return operator === 'is' ? same : sql`${same} is not true`;
};

const condition = (sql: Queryable, column: Fragment, { operator, value }: Filter): Fragment => {
  if (value === null) return operator === 'is' ? sql`${column} is null` : sql`${column} is not null`;
  if (value instanceof Date) return dateCondition(sql, column, operator, value);
  if (operator === 'like') return sql`${column} ilike ${patternOf(String(value))}::text`;
  if (operator === 'unlike') return sql`(${column} ilike ${patternOf(String(value))}::text) is not true`;
  const compared = valueOf(sql, value);
  if (operator === 'is') return sql`${column} = ${compared}`;
  if (operator === 'not') return sql`${column} is distinct from ${compared}`;
  return operator === 'greaterthan' ? sql`${column} > ${compared}` : sql`${column} < ${compared}`;
};

/** A condition that stands after others: ` and …` for each filter, nothing where there are none. */
export const narrowed = (sql: Queryable, filters: readonly Filter[], columns: AnyColumns): Fragment =>
  filters.reduce(
    (before, filter) => sql`${before} and ${condition(sql, columnOf(columns, filter.property), filter)}`,
    sql``,
  );

/**
 * What stands after `order by`. `ties` are the columns of the id, which breaks all ties in the direction of what was asked
 * for last, so that pages never overlap. What is not set counts as greater than anything, PostgreSQL's own way: with
 * `nulls last` no index of ours would be of use for `desc`.
 */
export const ordered = (
  sql: Queryable,
  order: readonly Order[],
  columns: AnyColumns,
  ties: readonly [Fragment, ...Fragment[]],
): Fragment => {
  const way = (descending: boolean): Fragment => (descending ? sql`desc` : sql`asc`);
  // After the id nothing is left to be ordered.
  const end = order.findIndex(({ property }) => property === 'id');
  const asked = end === -1 ? order : order.slice(0, end);
  const last = (order[end] ?? order.at(-1))?.descending ?? false;
  const terms = [
    ...asked.map(({ property, descending }) => sql`${columnOf(columns, property)} ${way(descending)}`),
    ...ties.map((tie) => sql`${tie} ${way(last)}`),
  ];
  return terms.reduce((before, term) => sql`${before}, ${term}`);
};

export const paged = (sql: Queryable, { offset, limit }: Pick<Listing, 'offset' | 'limit'>): Fragment =>
  sql`limit ${limit} offset ${offset}`;
