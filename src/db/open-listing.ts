/**
 * Filters and orders by undeclared properties: members of a JSON object, compared as the type of their text. A member is
 * extracted once per filter and once for all order terms, because an extraction costs as much as reading the row.
 */
import type { Filter, Listing, Order } from '#core/listing.ts';
import { narrowed, ordered } from './list-conditions.ts';
import type { Fragment, Queryable } from './pool.ts';

type Columns = Readonly<Record<string, Fragment>>;

/** An empty text counts as null. Each of these three evaluates `member` once. */
const textOf = (sql: Queryable, member: Fragment): Fragment => sql`nullif(${member}, '')`;
const momentOf = (sql: Queryable, member: Fragment): Fragment => sql`moment_of(${member})`;
const numberOf = (sql: Queryable, member: Fragment): Fragment => sql`number_of(${member})`;
/** Treats true as 1 and false as 0. */
const flagOf = (sql: Queryable, member: Fragment): Fragment =>
  sql`case ${member} when 'true' then '1' when 'false' then '0' else ${member} end`;

const isRange = ({ operator }: Filter): boolean => operator === 'greaterthan' || operator === 'lessthan';

/**
 * The text of a JSON value, to compare for equality with the text of a number: the member may be a number or a text. `12.50` is
 * the number 12.5, but the text "1.10" is not 1.1.
 */
const spellingOf = (sql: Queryable, value: Fragment): Fragment =>
  sql`btrim(regexp_replace((${value})::text, '^(-?[0-9]+)(?:[.]0+|([.][0-9]*[1-9])0+)$', '\\1\\2'), '"')`;

function comparableOf(sql: Queryable, { value }: Filter, member: Fragment): Fragment {
  if (value instanceof Date) return momentOf(sql, member);
  if (typeof value === 'number') return numberOf(sql, member);
  return value === '1' || value === '0' ? flagOf(sql, member) : textOf(sql, member);
}

/** Returns conditions like `narrowed`; a property without a column is a member of `object`, an expression of type json. */
export function narrowedOpenly(
  sql: Queryable,
  filters: readonly Filter[],
  { object, columns }: { object: Fragment; columns: Columns },
): Fragment {
  return filters.reduce(
    (before, given) => {
      const { property } = given;
      if (Object.hasOwn(columns, property)) return sql`${before}${narrowed(sql, [given], columns)}`;
      if (typeof given.value === 'number' && !isRange(given)) {
        const filter = { ...given, value: String(given.value) };
        const column = comparableOf(sql, filter, spellingOf(sql, sql`${object} -> ${property}::text`));
        return sql`${before}${narrowed(sql, [filter], { [property]: column })}`;
      }
      const column = comparableOf(sql, given, sql`${object} ->> ${property}::text`);
      return sql`${before}${narrowed(sql, [given], { [property]: column })}`;
    },
    sql``,
  );
}

const openNames = (order: readonly Order[], columns: Columns): string[] => [
  ...new Set(order.map(({ property }) => property).filter((property) => !Object.hasOwn(columns, property))),
];

/** Returns the members that an order needs as one array of texts, for the column `members` of a subquery. */
export function membersFor(sql: Queryable, { order }: Listing, object: Fragment, columns: Columns): Fragment {
  const names = openNames(order, columns);
  const members = names.reduce(
    (before, name, index) => sql`${before}${index === 0 ? sql`` : sql`, `}${object} ->> ${name}::text`,
    sql``,
  );
  return sql`array[${members}]::text[]`;
}

/**
 * Returns order terms like `ordered`, where `columns` and `members` are columns of a subquery. Numbers come first, then dates,
 * then texts.
 */
export function orderedOpenly(
  sql: Queryable,
  { order }: Listing,
  { members, columns }: { members: Fragment; columns: Columns },
  ties: readonly [Fragment, ...Fragment[]],
): Fragment {
  const names = openNames(order, columns);
  const all: Record<string, Fragment> = { ...columns };
  for (const [index, name] of names.entries()) {
    const member = sql`(${members})[${index + 1}::int]`;
    all[`${name} as number`] = numberOf(sql, member);
    all[`${name} as moment`] = momentOf(sql, member);
    all[`${name} as text`] = textOf(sql, member);
  }
  const expanded = order.flatMap(({ property, descending }) =>
    Object.hasOwn(columns, property)
      ? [{ property, descending }]
      : ['number', 'moment', 'text'].map((kind) => ({ property: `${property} as ${kind}`, descending })),
  );
  return ordered(sql, expanded, all, ties);
}
