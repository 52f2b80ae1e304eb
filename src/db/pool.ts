/** Connections to PostgreSQL, and what may be asked of them by every room. */
import type Postgres from 'postgres';
import { isMistyped, types } from './arrays.ts';
import { postgres } from './driver.ts';
import { remedyOf } from './remedy.ts';
import { counted } from './use.ts';

export type Sql = Postgres.Sql;
export type Tx = Postgres.TransactionSql;
/** What a function with SQL takes: the pool, or a transaction on one of its connections. */
export type Queryable = Postgres.ISql;

export type DatabaseAddress =
  | { kind: 'url'; url: string }
  | { kind: 'socket'; directory: string; user: string; password: string; database: string };

/** What an operator can mend; the message is one line that says how. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
}

/** The same with what to do apart, for whoever shows it on a line of its own. */
export class UnusableError extends DatabaseError {
  readonly what: string;
  readonly remedy: string;

  constructor(what: string, remedy: string, cause: unknown) {
    super(`${what}. ${remedy}`, { cause });
    this.what = what;
    this.remedy = remedy;
  }
}

/** The oldest PostgreSQL whose SQL Halcyon's statements are written in. */
const OLDEST_MAJOR = 15;
const CONNECT_TIMEOUT_SECONDS = 10;
/**
 * Every statement here has an index to go by. A table that was small when a statement was planned is not read as a whole by it
 * later: PostgreSQL keeps the plan until statistics are collected again, a minute later, in which 100,000 rows may come. JIT
 * would take a scan without an index for an expensive one. Planned anew each time, a publish of one event took twice as long;
 * behind a pooler it is.
 */
const PLANNING = { enable_seqscan: 'off', jit: 'off', plan_cache_mode: 'force_generic_plan' };

type Many = (...args: unknown[]) => unknown;

/**
 * Its connection broke, and somebody goes on with it. The driver (3.4.9) would send the statement on whatever stands in
 * the place of that connection by then: another's transaction.
 */
class TransactionOver extends Error {
  readonly code = 'CONNECTION_CLOSED';
  override readonly message = 'the transaction is over';
}

/**
 * Makes the tag pass arrays of dates, booleans and buffers without a declared type, so that the server infers it as it
 * does for every other array; the same for the tags that `begin`, `savepoint` and `reserve` hand out.
 */
const withArrays = <T extends Queryable>(sql: T, isOver = () => false): T =>
  new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      if (isOver()) throw new TransactionOver();
      const passed = args.some(isMistyped)
        ? args.map((arg) => (isMistyped(arg) ? target.typed(arg as never, 0) : arg))
        : args;
      return Reflect.apply(target as unknown as Many, self, passed);
    },
    get(target, key, receiver) {
      const member: unknown = Reflect.get(target, key, receiver);
      if (key === 'begin' || key === 'savepoint') {
        return async (...args: unknown[]) => {
          const body = args.pop() as (tx: Tx) => unknown;
          let hasEnded = false;
          try {
            return await (member as Many)(...args, async (tx: Tx) => {
              try {
                return await body(withArrays(tx, () => hasEnded || isOver()));
              } finally {
                // The driver would say COMMIT or ROLLBACK on that other connection too: nobody waits for it any more.
                if (hasEnded) await new Promise<never>(() => {});
              }
            });
          } finally {
            hasEnded = true;
          }
        };
      }
      if (key === 'reserve') {
        return async () => {
          // Opens a connection: the driver never answers a `reserve()` that has to open one (3.4.9), unless it looks up
          // types, and that look-up ends the process when the connection breaks in the middle of it.
          await (target as unknown as Sql)`select 1`;
          return withArrays((await (member as Many)()) as Postgres.ReservedSql);
        };
      }
      return member;
    },
  });

/** Reconnects after 50 ms, doubling up to 2 s: the driver's own goes up to 20 s, during which all requests would fail. */
const reconnectAfterSeconds = (attempt: number): number => Math.min(0.05 * 2 ** attempt, 2);

const socketOf = ({ directory, ...who }: Extract<DatabaseAddress, { kind: 'socket' }>) => ({
  path: `${directory}/.s.PGSQL.5432`,
  user: who.user,
  password: who.password,
  database: who.database,
});

/**
 * A pool that connects on first use. int8 is read as a number, timestamptz as a `Date`, both also inside arrays.
 * `isShared`: something stands between that gives each transaction another session (PgBouncer), in which nothing that was
 * prepared by name would be found again; a statement then takes a second round trip.
 * `silenceMs`: a connection on which nothing comes for so long while a statement waits there is given up, and the statement
 * rejects with what `isUnavailable` says yes to. It may have been carried out.
 * `onQuery` counts statements for the benches; it makes the driver put parameters on its errors, so never set it elsewhere.
 */
export const openPool = (
  address: DatabaseAddress,
  options: {
    connections: number;
    applicationName: string;
    isShared?: boolean;
    silenceMs?: number;
    onQuery?: (statement: string) => void;
  },
): Sql => {
  const { onQuery } = options;
  const settings: Postgres.Options<Record<string, Postgres.PostgresType>> = {
    max: options.connections,
    connect_timeout: CONNECT_TIMEOUT_SECONDS,
    backoff: reconnectAfterSeconds,
    // Our own `types` make the look-up needless.
    fetch_types: false,
    types,
    prepare: options.isShared !== true,
    onnotice: () => {},
    connection: {
      application_name: options.applicationName,
      TimeZone: 'UTC',
      DateStyle: 'ISO',
      ...(options.isShared !== true && PLANNING),
    },
    ...(onQuery && { debug: (_connection: number, statement: string) => onQuery(statement) }),
  };
  const sql =
    address.kind === 'url' ? postgres(address.url, settings) : postgres({ ...settings, ...socketOf(address) });
  // The driver drops options that it does not know; its connections, as they are mended, look for this one here.
  Object.assign(sql.options, { silenceMs: options.silenceMs });
  return withArrays(counted(sql, options.connections));
};

/** A pool to where `sql` goes, apart from it: who waits there does not wait here. What it is to be is settled already. */
export const openBeside = (sql: Sql, connections: number): Sql =>
  withArrays(postgres({ ...sql.options, max: connections } as unknown as Postgres.Options<never>));

/** The addresses and ports that a pool connects to; none where it goes through a socket of the file system. */
export const serversOf = ({ options: { host, port, path } }: Sql): { host: string; port: number }[] =>
  path ? [] : host.map((name, at) => ({ host: name.replace(/^\[|\]$/g, ''), port: port[at] ?? 5432 }));

/** Runs `fn` in a transaction: committed when it fulfils, rolled back when it rejects, its value or error handed on. */
export const transaction = async <T>(
  sql: Sql,
  fn: (tx: Tx) => Promise<T>,
  mode: 'read write' | 'read only' = 'read write',
): Promise<T> => {
  // Boxed, because the driver awaits the members of an array it is given.
  const { value } = (await sql.begin(mode, async (tx) => ({ value: await fn(tx) }))) as { value: T };
  return value;
};

/**
 * Until the transaction ends: how long a statement waits for a lock, and how long the server waits for the client. A process
 * that vanishes or is frozen must not keep a shard from its next owner.
 */
export const hurry = async (tx: Queryable, limitMs: number): Promise<void> => {
  await tx`
    select set_config('lock_timeout', ${String(limitMs)}, true),
      set_config('idle_in_transaction_session_timeout', ${String(limitMs)}, true)`;
};

/** Throws a `DatabaseError` unless the server answers and is PostgreSQL 15 or newer; answers its version as a number, 180004. */
export const checkServer = async (sql: Sql): Promise<number> => {
  const rows = await sql<{ version: string; number: number }[]>`
    select current_setting('server_version') as version, current_setting('server_version_num')::int as number
  `.catch((error: unknown) => {
    const reason =
      error instanceof Error ? error.message || String((error as NodeJS.ErrnoException).code) : String(error);
    throw new UnusableError(`PostgreSQL cannot be used: ${reason}`, remedyOf(error), error);
  });
  const [server] = rows;
  if (server !== undefined && server.number >= OLDEST_MAJOR * 10_000) return server.number;
  throw new UnusableError(
    `PostgreSQL is version ${server?.version}`,
    `Halcyon needs ${OLDEST_MAJOR} or newer`,
    undefined,
  );
};
