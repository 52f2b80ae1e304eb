/** Checks of a database before it is used: its encoding, its schema, the sessions of its pooler, its collations. */
import { UnusableError, type Queryable } from './pool.ts';
import { OF_POOLED } from './servers.ts';

/** Throws a `DatabaseError` unless the database stores any text, and there is a schema for the tables. */
export async function checkDatabaseText(sql: Queryable): Promise<void> {
  const [row] = await sql<{ encoding: string; schema: string | null; path: string }[]>`
    select current_setting('server_encoding') as encoding, current_schema() as schema, current_setting('search_path') as path`;
  if (row !== undefined && row.encoding !== 'UTF8')
    throw new UnusableError(
      `The encoding of the database is ${row.encoding}, but events may contain any script`,
      'Create a database with UTF8 (createdb --encoding=UTF8 --template=template0), and restore a dump into it',
      undefined,
    );
  if (row?.schema === null)
    throw new UnusableError(
      `The database has none of the schemas in search_path (${row.path})`,
      'Create the schema, or correct search_path: of the role, of the database, or in DATABASE_URL',
      undefined,
    );
}

/**
 * Throws a `DatabaseError` if sessions behind a pooler begin with a setting that makes Halcyon misread or fail, because a client of the
 * pooler cannot change it: each transaction may have another session.
 */
export async function checkPooled(sql: Queryable): Promise<void> {
  const names = OF_POOLED.map(([name]) => name);
  const found = await sql<{ name: string; value: string; role: string; database: string }[]>`
    select name, reset_val as value, quote_ident(current_user) as role, quote_ident(current_database()) as database
    from pg_settings where name = any (${names}) order by name`;
  const wanted = new Map<string, string>(OF_POOLED);
  const others = found.filter(({ name, value }) => wanted.get(name) !== value);
  if (others.length === 0) return;
  const statements = others.map(
    ({ name, role, database }) => `alter role ${role} in database ${database} set ${name} = '${wanted.get(name)}'`,
  );
  throw new UnusableError(
    `The sessions of the pooler begin with ${others.map(({ name, value }) => `${name} = ${value}`).join(', ')}`,
    `In psql: ${statements.join('; ')}. Then in the console of PgBouncer: RECONNECT`,
    undefined,
  );
}

/** The version of the collations that the indexes of a database were built with, and that of the operating system. */
export type CollationChange = { database: string; recorded: string; actual: string | null };

/** Returns both versions if they differ: then texts may be in another order than in the indexes. */
export async function findCollationChange(sql: Queryable): Promise<CollationChange | undefined> {
  const [row] = await sql<CollationChange[]>`
    select quote_ident(datname) as database, datcollversion as recorded, pg_database_collation_actual_version(oid) as actual
    from pg_database
    where datname = current_database() and datcollversion is distinct from pg_database_collation_actual_version(oid)
      and datcollversion is not null`;
  return row;
}

/** Returns the statements that rebuild the indexes with the present collations. */
export function remedyOfCollations({ database }: CollationChange): string {
  return `In psql: reindex database ${database}; alter database ${database} refresh collation version`;
}
