/** What a database needs to be used: a server that responds, its version, encoding, schema, sessions, collations and connections. */
import { oneOf, type Queryable, type Sql } from './pool.ts';
import { DatabaseError, OF_POOLED } from './servers.ts';
import { codeOf } from './unavailable.ts';

/** A `DatabaseError` with problem and remedy as separate members. */
export class UnusableError extends DatabaseError {
  readonly problem: string;
  readonly remedy: string;

  constructor(problem: string, remedy: string, cause?: unknown) {
    super(`${problem}. ${remedy}`, { cause });
    this.problem = problem;
    this.remedy = remedy;
  }
}

// Remedies for an unusable PostgreSQL, by the error code of Node, the driver or the server.

const HOST = 'Check the host name in DATABASE_URL: it cannot be resolved';
const SILENT = 'Check host and port in DATABASE_URL, and whether a firewall blocks the connection';
const LOGIN = 'Check user and password in DATABASE_URL, and that pg_hba.conf of the server admits them';

const REMEDIES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Start the server, or check host and port in DATABASE_URL',
  ENOENT: 'Start the server, or set its host and port in DATABASE_URL',
  ENOTFOUND: HOST,
  EAI_AGAIN: HOST,
  ETIMEDOUT: SILENT,
  EHOSTUNREACH: SILENT,
  ENETUNREACH: SILENT,
  CONNECT_TIMEOUT: SILENT,
  '28000': LOGIN,
  '28P01': LOGIN,
  '3D000': 'Create the database (createdb), or check its name in DATABASE_URL',
  '53300': 'Raise max_connections of the server, or lower DATABASE_CONNECTIONS',
  '08P01': 'If DATABASE_URL points to a pooler, set DATABASE_DIRECT_URL to PostgreSQL itself',
  '57P03': 'Wait until the server has started, or check its log',
};

function remedyOf(error: unknown): string {
  const code = codeOf(error);
  const known = code !== undefined && Object.hasOwn(REMEDIES, code) ? REMEDIES[code] : undefined;
  return known ?? 'Check DATABASE_URL and that the server runs';
}

/** The oldest PostgreSQL version that supports all statements. */
const OLDEST_MAJOR = 15;

/**
 * Returns the server's version as a number such as 180004; throws a `DatabaseError` unless it responds and is PostgreSQL 15 or
 * newer.
 */
export async function checkServer(sql: Sql): Promise<number> {
  const server = await oneOf(sql<{ version: string; number: number }[]>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number
  `).catch((error: unknown) => {
    const reason = error instanceof Error ? error.message || String(codeOf(error)) : String(error);
    throw new UnusableError(`PostgreSQL cannot be used: ${reason}`, remedyOf(error), error);
  });
  if (server.number >= OLDEST_MAJOR * 10_000) return server.number;
  throw new UnusableError(`PostgreSQL is version ${server.version}`, `Halcyon needs ${OLDEST_MAJOR} or newer`);
}

/** Returns whether the schema of a connection has a table; also for databases of older versions, and of other programs. */
export async function hasTable(sql: Queryable, name: string): Promise<boolean> {
  return (await oneOf(sql<{ isThere: boolean }[]>`select to_regclass(${name}) is not null as "isThere"`)).isThere;
}

/** Throws a `DatabaseError` unless the database stores any text, and there is a schema for the tables. */
export async function checkDatabaseText(sql: Queryable): Promise<void> {
  const [row] = await sql<{ encoding: string; schema: string | null; path: string }[]>`
    select current_setting('server_encoding') as encoding, current_schema() as schema, current_setting('search_path') as path`;
  if (row !== undefined && row.encoding !== 'UTF8')
    throw new UnusableError(
      `The encoding of the database is ${row.encoding}, but events may contain any script`,
      'Create a database with UTF8 (createdb --encoding=UTF8 --template=template0), and restore a dump into it',
    );
  if (row?.schema === null)
    throw new UnusableError(
      `The database has none of the schemas in search_path (${row.path})`,
      'Create the schema, or correct search_path: of the role, of the database, or in DATABASE_URL',
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

// Divides the connections that the server allows.

/** Share of the server's connections for the processes of one supervisor; the rest is for other programs and commands. */
const SHARE = 3 / 4;
/** The smallest pool: one transaction, and the statements beside it. */
const POOL_MIN = 2;

/**
 * Returns the pool size of each process: `wanted`, or less if the server allows too few connections. `others` is the number of
 * connections that a process has beside its pool. Throws if the server does not even allow the smallest pools.
 */
export async function connectionsOfEach(
  sql: Sql,
  processes: number,
  { wanted, others }: { wanted: number; others: number },
): Promise<number> {
  const { allowed } = await oneOf(sql<{ allowed: number }[]>`
    select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`);
  const each = Math.min(wanted, Math.floor((allowed * SHARE) / processes) - others);
  if (each >= POOL_MIN) return each;
  throw new UnusableError(
    `PostgreSQL allows ${allowed} connections, too few for ${processes} processes`,
    `lower PROCESSES to ${Math.max(1, Math.floor((allowed * SHARE) / (POOL_MIN + others)))} or raise max_connections`,
  );
}
