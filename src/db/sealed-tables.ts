/**
 * The vaults of tables with sealed columns: each module lists its own (the table, its primary key, its sealed columns), and their rows are
 * read and replaced here.
 */
import type { Fragment, Queryable, Sql } from './pool.ts';
import type { Vault } from './seal.ts';

type KeyType = 'smallint' | 'integer' | 'bigint' | 'bytea';
type KeyTypes = Readonly<Record<string, KeyType>>;
type KeyOf<Types extends KeyTypes> = { [Name in keyof Types]: Types[Name] extends 'bytea' ? Buffer : number };

/** `seals`: the table, which test/architecture/tables.ts reads. `key`: the columns of its primary key, in their order. */
type SealedTable<Types extends KeyTypes> = {
  name: string;
  seals: string;
  key: Types;
  columns: readonly string[];
  /** Returns the associated data of all sealed values of a row. */
  boundTo: (key: KeyOf<Types>) => string;
};

type Row = Readonly<Record<string, number | Buffer | null>>;

/** Returns the primary key of a row as the id of a vault: its values, separated by blanks. */
const idOf = (row: Row, names: readonly string[]): string =>
  names.map((name) => (row[name] instanceof Buffer ? row[name].toString('hex') : String(row[name]))).join(' ');

/** Returns the values of a column of the primary key, of rows with these ids, as a parameter. */
function keyValues(sql: Queryable, type: KeyType, at: number, ids: readonly string[]): Fragment {
  const texts = ids.map((id) => id.split(' ')[at] ?? '');
  switch (type) {
    case 'smallint':
      return sql`${texts.map(Number)}::smallint[]`;
    case 'integer':
      return sql`${texts.map(Number)}::integer[]`;
    case 'bigint':
      return sql`${texts.map(Number)}::bigint[]`;
    case 'bytea':
      return sql`${texts.map((text) => Buffer.from(text, 'hex'))}::bytea[]`;
  }
}

const all = (sql: Queryable, parts: readonly Fragment[], glue: Fragment): Fragment =>
  parts.reduce((before, part) => sql`${before}${glue}${part}`);

const listed = (sql: Queryable, parts: readonly Fragment[]): Fragment => all(sql, parts, sql`, `);

/** Compares the key id, bytes 2–5 of an envelope. A missing envelope compares as null and does not match. */
const isOfOtherKey = (sql: Queryable, columns: readonly string[], keyId: Buffer): Fragment => {
  const each = columns.map((column) => sql`substring(${sql(column)} from 2 for 4) <> ${keyId}`);
  return sql`(${all(sql, each, sql` or `)})`;
};

/** Returns the function of a vault that writes envelopes, which are in the rows `r` of the statement as `<column> before` and `<column> after`. */
function createReplace<Types extends KeyTypes>(
  sql: Sql,
  { seals, key, columns }: SealedTable<Types>,
): Vault['replace'] {
  const names = Object.keys(key);
  const hasKeyOf = (other: Fragment): Fragment => {
    const each = names.map((name) => sql`t.${sql(name)} = ${other}.${sql(name)}`);
    return all(sql, each, sql` and `);
  };
  const sealed = columns.map((column) => {
    return { column: sql(column), before: sql(`${column} before`), after: sql(`${column} after`) };
  });
  const pairs = sealed.map(({ before, after }) => sql`${before}, ${after}`);
  const assignments = sealed.map(({ column, after }) => sql`${column} = free.${after}`);
  const ofRow = names.map((name) => sql`t.${sql(name)}`);
  const isUnchanged = sealed.map(({ column, before }) => sql`t.${column} is not distinct from r.${before}`);
  return async (rows) => {
    const ids = rows.map(({ id }) => id);
    const keys = Object.values(key).map((type, at) => keyValues(sql, type, at, ids));
    const values = columns.map((_, at) => {
      const [before, after] = [
        rows.map((row) => row.envelopes[at] ?? null),
        rows.map((row) => row.renewed[at] ?? null),
      ];
      return sql`${before}::bytea[], ${after}::bytea[]`;
    });
    const written = await sql<Row[]>`
      with free as (
        select r.*
        from unnest(${listed(sql, [...keys, ...values])})
          as r (${sql(names)}, ${listed(sql, pairs)})
        join ${sql(seals)} t on ${hasKeyOf(sql`r`)}
        where ${all(sql, isUnchanged, sql` and `)}
        for no key update of t skip locked
      )
      update ${sql(seals)} t set ${listed(sql, assignments)} from free where ${hasKeyOf(sql`free`)}
      returning ${listed(sql, ofRow)}`;
    return written.map((row) => idOf(row, names));
  };
}

export function vaultOf<const Types extends KeyTypes>(sql: Sql, table: SealedTable<Types>): Vault {
  const { name, seals, key, columns, boundTo } = table;
  const names = Object.keys(key);
  return {
    name,
    count: async (keyId) => {
      const [row] = await sql<{ n: number }[]>`
        select count(*) as n from ${sql(seals)} where ${isOfOtherKey(sql, columns, keyId)}`;
      return row?.n ?? 0;
    },
    page: async ({ keyId, after, limitRows }) => {
      const last = Object.values(key).map((type, at) => sql`(${keyValues(sql, type, at, [after ?? ''])})[1]`);
      const isNext = after === undefined ? sql`true` : sql`(${sql(names)}) > (${listed(sql, last)})`;
      const rows = await sql<Row[]>`
        select ${sql([...names, ...columns])} from ${sql(seals)} where ${isNext} and ${isOfOtherKey(sql, columns, keyId)}
        order by ${sql(names)} limit ${limitRows}`;
      return rows.map((row) => ({
        id: idOf(row, names),
        boundTo: boundTo(row as KeyOf<Types>),
        envelopes: columns.map((column) => row[column] as Buffer | null),
      }));
    },
    replace: createReplace(sql, table),
  };
}
