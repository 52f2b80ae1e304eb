/** Describes statements by the database: the names of their columns, what the driver makes of their types, and nullability. */
import type { Queryable, Sql } from '#db/pool.ts';
import { decoderOf } from '#db/statement.ts';
import { columnsOf, parseQuery, type Catalogue, type Nullability } from './nullability.ts';

export type Column = { name: string; kind: string; nullability: Nullability };
/** The columns of a statement, or the error with which PostgreSQL refuses it. */
export type Description = Column[] | { refused: string };

/** Returns the kind of a value, by which row types are compared. */
function kindOf(value: unknown): string {
  if (Array.isArray(value)) return `${kindOf(value[0])}[]`;
  if (value instanceof Date) return 'Date';
  return value instanceof Uint8Array ? 'Buffer' : typeof value;
}

const JSON_TYPES = new Set([114, 3802]);
const SAMPLES: Readonly<Record<string, string>> = { N: '1', B: 't', D: '2026-11-28 12:00:00+00', U: String.raw`\x00` };

type TypeRow = { oid: number; category: string; element: number };

async function readKinds(sql: Queryable): Promise<ReadonlyMap<number, string>> {
  const rows = await sql<TypeRow[]>`
    select oid::int as oid, typcategory::text as category,
      case when typcategory = 'A' then typelem else 0 end::int as element from pg_type`;
  const types = new Map(rows.map((row) => [row.oid, row]));
  const sampleOf = (oid: number): string => SAMPLES[types.get(oid)?.category ?? ''] ?? 'x';
  return new Map(
    rows.map(({ oid, element }) => {
      if (JSON_TYPES.has(oid) || JSON_TYPES.has(element)) return [oid, element === 0 ? 'json' : 'json[]'];
      const sample = element === 0 ? sampleOf(oid) : `{"${sampleOf(element).replace('\\', '\\\\')}"}`;
      return [oid, kindOf(decoderOf(oid)(sample))];
    }),
  );
}

async function readCatalogue(sql: Queryable): Promise<Catalogue> {
  // The columns of views are never NOT NULL.
  const columns = await sql<{ key: string; isRequired: boolean }[]>`
    select a.attrelid::text || '.' || a.attnum as key, a.attnotnull as "isRequired"
    from pg_attribute a join pg_class c on c.oid = a.attrelid where c.relkind in ('r', 'p')`;
  const functions = await sql<{ oid: string; name: string; isStrict: boolean }[]>`
    select oid::text as oid, proname::text as name, proisstrict as "isStrict" from pg_proc`;
  const operators = await sql<{ oid: string; name: string }[]>`
    select oid::text as oid, oprname::text as name from pg_operator`;
  const views = await sql<{ oid: string; tree: string }[]>`
    select c.oid::text as oid, r.ev_action::text as tree from pg_class c join pg_rewrite r on r.ev_class = c.oid
    where c.relkind = 'v' and c.relnamespace = current_schema()::regnamespace`;
  return {
    views: new Map(views.map(({ oid, tree }) => [oid, parseQuery(tree)])),
    columns: new Map(columns.map(({ key, isRequired }) => [key, isRequired])),
    functions: new Map(functions.map(({ oid, name }) => [oid, name])),
    strict: new Set(functions.flatMap(({ oid, isStrict }) => (isStrict ? [oid] : []))),
    operators: new Map(operators.map(({ oid, name }) => [oid, name])),
  };
}

type Prepared = { parameters: string[]; results: number[] | null };

/**
 * Returns the description of each text. A prepared statement has the types of its columns; the body of a function has their tables, and
 * the outer joins that make a column null.
 */
export async function describeStatements(sql: Sql, texts: ReadonlySet<string>): Promise<Map<string, Description>> {
  const connection = await sql.reserve();
  const kinds = await readKinds(connection);
  const catalogue = await readCatalogue(connection);
  const described = new Map<string, Description>();
  const describe = async (text: string): Promise<Description> => {
    const name = `described_${described.size}`;
    await connection.unsafe(`prepare ${name} as ${text}`);
    const [prepared] = await connection<Prepared[]>`
      select parameter_types::text[] as parameters, result_types::oid[] as results
      from pg_prepared_statements where name = ${name}`;
    if (prepared?.results == null) return [];
    await connection.unsafe(
      `create function pg_temp.described(${prepared.parameters.join()}) returns void language sql begin atomic ${text}; end`,
    );
    const [body] = await connection<{ tree: string }[]>`
      select prosqlbody::text as tree from pg_proc where oid = 'pg_temp.described'::regproc`;
    const columns = columnsOf(parseQuery(body?.tree ?? ''), catalogue);
    return columns.map(({ name: column, nullability }, at) => ({
      name: column,
      nullability,
      kind: kinds.get(prepared.results?.[at] ?? 0) ?? 'none',
    }));
  };
  for (const text of texts) {
    await connection`begin`;
    try {
      described.set(text, await describe(text));
    } catch (error) {
      described.set(text, { refused: `${(error as NodeJS.ErrnoException).code} ${(error as Error).message}` });
    }
    await connection`rollback`;
  }
  connection.release();
  return described;
}
