/**
 * Filters and orders by undeclared properties: members of a JSON object, compared as the type of their text. A member is
 * extracted once per filter and once for all order terms, because an extraction costs as much as reading the row.
 */
import { isRange, stepsOf, type Condition, type Filter, type Listing, type Order } from '#core/listing.ts';
import { narrowedBy, ordered, type Operand } from './list-conditions.ts';
import type { Fragment, Queryable } from './pool.ts';

type Columns = Readonly<Record<string, Fragment>>;

/** Returns the condition that a member of `_embedded` has the name of this relation, with or without a prefix. */
export function isNamed(sql: Queryable, name: Fragment, relation: string): Fragment {
  return sql`(${name} = ${relation} or right(${name}, length(${relation}::text) + 1) = ':' || ${relation}::text)`;
}

/**
 * Returns a member of a JSON value, or null, as JSON or as text. `#>` finds an element of an array, or a member with this name; of other
 * names only `->` is used, because `#>` would read `-1` and `01` as elements.
 */
function memberOf(sql: Queryable, object: Fragment, property: string, form: 'json' | 'text'): Fragment {
  const steps = stepsOf(property);
  // A statement with a pointer is not prepared: each shape of a pointer is another text, and the number of prepared ones is limited.
  const start = steps.length > 1 ? sql`${object}${sql.unsafe('')}` : object;
  return steps.reduce((value, { name, index, isRelation }, at) => {
    const isText = form === 'text' && at === steps.length - 1;
    const [arrow, path] = isText ? [sql`->>`, sql`#>>`] : [sql`->`, sql`#>`];
    if (!isRelation)
      return index === -1 ? sql`(${value} ${arrow} ${name}::text)` : sql`(${value} ${path} ${[name]}::text[])`;
    return sql`((select case json_typeof(p.value)
        when 'array' then ${index === -1 ? sql`null` : sql`p.value -> ${index}::int`}
        when 'object' then (
          select e.value from json_each(p.value) with ordinality e (key, value, n)
          where ${isNamed(sql, sql`e.key`, name)} order by e.n limit 1
        ) end
      from (select ${value} as value offset 0) p) ${path} '{}')`;
  }, start);
}

/** An empty text counts as null. Each of these three evaluates `member` once. */
const textOf = (sql: Queryable, member: Fragment): Fragment => sql`nullif(${member}, '')`;
const momentOf = (sql: Queryable, member: Fragment): Fragment => sql`moment_of(${member})`;
const numberOf = (sql: Queryable, member: Fragment): Fragment => sql`number_of(${member})`;

/**
 * The text of a JSON value, to compare for equality with the text of a number: the member may be a number or a text. `12.50` is
 * the number 12.5, but the text "1.10" is not 1.1.
 */
const spellingOf = (sql: Queryable, value: Fragment): Fragment =>
  sql`btrim(regexp_replace((${value})::text, '^(-?[0-9]+)(?:[.]0+|([.][0-9]*[1-9])0+)$', '\\1\\2'), '"')`;

/** Returns the texts of the members that are equal to a value: 1 is true, and 0 is false. */
export function spellingsOf(value: string | number): string[] {
  const text = String(value);
  return text === '1' ? [text, 'true'] : text === '0' ? [text, 'false'] : [text];
}

function operandOf(sql: Queryable, object: Fragment, { property, operator, value }: Condition): Operand {
  const member = (form: 'json' | 'text') => memberOf(sql, object, property, form);
  if (typeof value === 'number' && !isRange(operator))
    return { form: 'spelling', column: spellingOf(sql, member('json')), equals: spellingsOf(value) };
  const [form, typed] =
    value instanceof Date ? ['moment', momentOf] : typeof value === 'number' ? ['number', numberOf] : ['text', textOf];
  return { form, column: typed(sql, member('text')), equals: [value] };
}

/** Returns conditions like `narrowed`; a property without a column is a member of `object`, an expression of type json. */
export function narrowedOpenly(
  sql: Queryable,
  filters: readonly Filter[],
  { object, columns }: { object: Fragment; columns: Columns },
): Fragment {
  return narrowedBy(sql, filters, (condition) => {
    const column = Object.hasOwn(columns, condition.property) ? columns[condition.property] : undefined;
    return column === undefined ? operandOf(sql, object, condition) : { column, form: '', equals: [condition.value] };
  });
}

const openNames = (order: readonly Order[], columns: Columns): string[] => [
  ...new Set(order.map(({ property }) => property).filter((property) => !Object.hasOwn(columns, property))),
];

/** Returns the members that an order needs as one array of texts, for the column `members` of a subquery. */
export function membersFor(sql: Queryable, { order }: Listing, object: Fragment, columns: Columns): Fragment {
  const names = openNames(order, columns);
  const members = names.reduce(
    (before, name, index) => sql`${before}${index === 0 ? sql`` : sql`, `}${memberOf(sql, object, name, 'text')}`,
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
