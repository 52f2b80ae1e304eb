/** Connection pools, transactions and the check of the PostgreSQL server. */
import type Postgres from 'postgres';
import { isMistyped, types } from './arrays.ts';
import { postgres } from './driver.ts';
import { remedyOf } from './remedy.ts';
import { withUseCounted } from './use.ts';

export type Sql = Postgres.Sql;
export type Tx = Postgres.TransactionSql;
/** The pool, or a transaction on one of its connections. */
export type Queryable = Postgres.ISql;

export type DatabaseAddress =
  | { kind: 'url'; url: string }
  | { kind: 'socket'; directory: string; user: string; password: string; database: string };

/** An error that an operator can fix; the message is one line with the remedy. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
}

/** A `DatabaseError` with problem and remedy as separate members. */
export class UnusableError extends DatabaseError {
  readonly what: string;
  readonly remedy: string;

  constructor(what: string, remedy: string, cause: unknown) {
    super(`${what}. ${remedy}`, { cause });
    this.what = what;
    this.remedy = remedy;
  }
}

/** The oldest PostgreSQL version that supports all statements. */
const OLDEST_MAJOR = 15;
const CONNECT_TIMEOUT_SECONDS = 10;
/**
 * Every statement has an index. Sequential scans are off because a plan made while a table was small is kept until statistics are
 * collected, a minute in which 100,000 rows may arrive; JIT is off because it would treat the penalised scans as expensive.
 * Without generic plans, a publish of one event takes twice as long, as it does behind a pooler.
 */
const PLANNING = { enable_seqscan: 'off', jit: 'off', plan_cache_mode: 'force_generic_plan' };

type Many = (...args: unknown[]) => unknown;

/**
 * A statement was sent after the connection of its transaction broke. The driver (3.4.9) would execute it on the replacement
 * connection, in the transaction of another caller.
 */
class TransactionEndedError extends Error {
  readonly code = 'CONNECTION_CLOSED';
  override readonly message = 'the transaction has ended';
}

/**
 * Wraps the tag, and those of `begin`, `savepoint` and `reserve`, so that arrays of dates, booleans and buffers are sent without a
 * declared type and the server infers it, as for every other array.
 */
const withArrays = <T extends Queryable>(sql: T, hasTransactionEnded = () => false): T =>
  new Proxy(sql, {
    apply(target, self, args: unknown[]) {
      if (hasTransactionEnded()) throw new TransactionEndedError();
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
                return await body(withArrays(tx, () => hasEnded || hasTransactionEnded()));
              } finally {
                // Never resolves: the driver would send COMMIT or ROLLBACK on the replacement connection too.
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
          // Opens a connection: a `reserve()` that has to open one never resolves (driver 3.4.9) unless the driver looks up
          // types, and that look-up crashes the process if the connection breaks during it.
          await (target as unknown as Sql)`select 1`;
          return withArrays((await (member as Many)()) as Postgres.ReservedSql);
        };
      }
      return member;
    },
  });

/** Returns the reconnect delay: 50 ms, doubling up to 2 s. The driver's default rises to 20 s, during which all requests would fail. */
const reconnectAfterSeconds = (attempt: number): number => Math.min(0.05 * 2 ** attempt, 2);

const socketOf = ({ directory, user, password, database }: Extract<DatabaseAddress, { kind: 'socket' }>) => ({
  path: `${directory}/.s.PGSQL.5432`,
  user,
  password,
  database,
});

/**
 * Returns a pool that connects on first use. int8 is read as a number, timestamptz as a `Date`, both also inside arrays.
 * `isShared`: a pooler assigns a session per transaction (PgBouncer), so named prepared statements are not available and a
 * statement takes a second round trip.
 * `silenceMs`: a connection without a response for this long while a statement waits is closed, and the statement rejects with an
 * error for which `isUnavailable` returns true. It may have been executed.
 * `onQuery` counts statements for the benches; it adds parameters to the driver's errors, so it is never set elsewhere.
 */
export function openPool(
  address: DatabaseAddress,
  options: {
    connections: number;
    applicationName: string;
    isShared?: boolean;
    silenceMs?: number;
    onQuery?: (statement: string) => void;
  },
): Sql {
  const { onQuery } = options;
  const settings: Postgres.Options<Record<string, Postgres.PostgresType>> = {
    max: options.connections,
    connect_timeout: CONNECT_TIMEOUT_SECONDS,
    backoff: reconnectAfterSeconds,
    // `types` makes the look-up unnecessary.
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
  // The driver drops unknown options; its patched connections read this one here.
  Object.assign(sql.options, { silenceMs: options.silenceMs });
  return withArrays(withUseCounted(sql, options.connections));
}

/** Returns a separate pool to the server of `sql`, with the same options. */
export function openBeside(sql: Sql, connections: number): Sql {
  return withArrays(postgres({ ...sql.options, max: connections } as unknown as Postgres.Options<never>));
}

/** Returns the hosts and ports that a pool connects to; none for a Unix socket. */
export function serversOf({ options: { host, port, path } }: Sql): { host: string; port: number }[] {
  return path ? [] : host.map((name, at) => ({ host: name.replace(/^\[|\]$/g, ''), port: port[at] ?? 5432 }));
}

/** Runs `fn` in a transaction: commits when it resolves, rolls back when it rejects, and passes on its value or error. */
export async function transaction<T>(
  sql: Sql,
  fn: (tx: Tx) => Promise<T>,
  mode: 'read write' | 'read only' = 'read write',
): Promise<T> {
  // In an object, because the driver awaits the elements of a returned array.
  const { value } = (await sql.begin(mode, async (tx) => ({ value: await fn(tx) }))) as { value: T };
  return value;
}

/**
 * Limits, until the transaction ends, how long a statement waits for a lock and how long the server waits for the client. A
 * process that vanishes or is frozen must not keep a shard from its next owner.
 */
export async function hurry(tx: Queryable, limitMs: number): Promise<void> {
  await tx`
    select set_config('lock_timeout', ${String(limitMs)}, true),
      set_config('idle_in_transaction_session_timeout', ${String(limitMs)}, true)`;
}

/** Returns the server's version as a number such as 180004; throws a `DatabaseError` unless it responds and is PostgreSQL 15 or newer. */
export async function checkServer(sql: Sql): Promise<number> {
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
}
