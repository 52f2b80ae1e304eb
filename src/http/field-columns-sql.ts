/** Derives the SQL of a table from its fields: lists of columns, of parameters, and the expressions of filters. */
import type { Fragment, Queryable } from '#db/pool.ts';
import { comparisonsOf, memberOf, writtenOf, type Fields, type SettingsOf } from './field-table.ts';

type Plain = string | number | boolean | Date | readonly string[] | null;
type FromSql = { from: 'sql' };
/** Whether lists compare a property by an expression that is not a column. */
type Filtered<F> = F extends { comparison: 'none' } | { kind: 'secret' | 'list' | 'json' }
  ? false
  : F extends { from: 'sql' | 'code' } | { filterBy: 'sql' }
    ? true
    : false;

/** The expressions of rows that are not columns, and those by which lists compare. */
export type Selected<T extends Fields> = { [N in keyof T as T[N] extends FromSql ? N : never]: Fragment };
export type Compared<T extends Fields> = { [N in keyof T as Filtered<T[N]> extends true ? N : never]: Fragment };

/** Returns the texts as the strings of a template, which the tag prepares as it does one in the source. */
const templateOf = (texts: readonly string[]): TemplateStringsArray => Object.assign([...texts], { raw: texts });

/** Joins items that contain parameters, written as `?`, to one template. */
const joined = (items: readonly string[]): TemplateStringsArray => templateOf(items.join(', ').split('?'));

/** Derives the SQL of the table with this alias in statements. */
export function columnsOf<const T extends Fields>(fields: T, alias: string) {
  const entries = Object.entries(fields).map(([name, field]) => ({ name, field, column: field.column ?? name }));
  const inRow = entries.filter(({ field }) => field.from !== 'code');
  const selection = joined(
    inRow.map(({ name, field, column }) => {
      const member = memberOf(name, field);
      if (field.from === 'sql') return `? as "${member}"`;
      return member === column ? `${alias}.${column}` : `${alias}.${column} as "${member}"`;
    }),
  );
  const expressions = inRow.flatMap(({ name, field }) => (field.from === 'sql' ? [name] : []));
  const comparisons: Readonly<Record<string, string>> = comparisonsOf(fields);
  const compared = entries
    .filter(({ name, field }) => comparisons[name] !== 'none' && field.from === undefined && !field.filterBy)
    .map(({ name, column }) => [name, templateOf([`${alias}.${column}`])] as const);
  const written = writtenOf(fields).filter(({ field }) => field.kind !== 'secret' && field.from === undefined);
  const changed = written.filter(({ input }) => input.isFixed !== true);
  const parameterOf = ({ field }: (typeof written)[number]) => (field.kind === 'list' ? '?::text[]' : '?');
  const columnOf = ({ name, field }: (typeof written)[number]) => field.column ?? name;
  const names = templateOf([written.map(columnOf).join(', ')]);
  const parameters = joined(written.map(parameterOf));
  const assignments = joined(changed.map((entry) => `${columnOf(entry)} = ${parameterOf(entry)}`));

  const bound = (sql: Queryable, template: TemplateStringsArray, of: typeof written, settings: SettingsOf<T>) => {
    const values = settings as Readonly<Record<string, Plain>>;
    return sql(
      template,
      ...of.map(({ member, field: { kind } }) => {
        // The encoder refuses undefined.
        const value = values[member] as Plain;
        return kind === 'json' ? sql.json(value) : value;
      }),
    );
  };

  return {
    /** The columns and expressions of a row, for SELECT and RETURNING. */
    selected: (sql: Queryable, given: Selected<T>) => {
      const fragments = given as Readonly<Record<string, Fragment>>;
      return sql(selection, ...expressions.map((name) => fragments[name] as Fragment));
    },
    /** The expression of each property for filters and orders. */
    compared: (sql: Queryable, given: Compared<T>): Readonly<Record<string, Fragment>> => {
      const own: Record<string, Fragment> = { ...given };
      for (const [name, template] of compared) own[name] = sql(template);
      return own;
    },
    /** The names of the settings, for INSERT. */
    names: (sql: Queryable) => sql(names),
    /** The parameters in the order of the names. */
    parameters: (sql: Queryable, settings: SettingsOf<T>) => bound(sql, parameters, written, settings),
    /** Assignments of the settings that may change, for UPDATE. */
    assigned: (sql: Queryable, settings: SettingsOf<T>) => bound(sql, assignments, changed, settings),
  };
}
