/** Connection pools and the values that they send and read, transactions, and the check of the PostgreSQL server. */
import type Postgres from 'postgres';
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

/**
 * Encodes and decodes an element of PostgreSQL arrays. The driver's own codec needs a type look-up on every new connection, reads
 * NULL inside an array as the text "NULL", replaces a jsonb element that has a member `type` by its `.value`, and declares an
 * array of dates, booleans or buffers as a single value. `isBare`: values of the type never need quotes inside an array.
 */
type Codec = { serialize: (value: unknown) => string; parse: (text: string) => unknown; isBare?: boolean };

const quoted = (text: string): string => `"${text.replace(/[\\"]/g, '\\$&')}"`;

/** Returns the array literal. Unquoted, 500 numbers take 0.05 ms instead of 0.44; a batch of events has fifteen such columns. */
function arrayText(values: readonly unknown[], { serialize, isBare = false }: Codec): string {
  const written = (value: unknown): string => {
    if (value === null || value === undefined) return 'NULL';
    return isBare && typeof value !== 'string' ? serialize(value) : quoted(serialize(value));
  };
  return `{${values.map(written).join(',')}}`;
}

/** One element: a quoted text with its escapes, or everything up to the next comma. One dimension only. */
const ELEMENT = /"((?:[^"\\]|\\.)*)"|([^,{}]+)/gs;

const parseArray = (text: string, parse: Codec['parse']): unknown[] =>
  Array.from(text.matchAll(ELEMENT), ([, inQuotes, bare]) => {
    if (inQuotes !== undefined) return parse(inQuotes.replace(/\\(.)/gs, '$1'));
    return bare === undefined || bare === 'NULL' ? null : parse(bare);
  });

const text: Codec = { serialize: String, parse: (value) => value };
const number: Codec = { serialize: String, parse: Number, isBare: true };
const boolean: Codec = {
  serialize: (value) => (value === true ? 't' : 'f'),
  parse: (value) => value === 't',
  isBare: true,
};
const json: Codec = { serialize: (value) => JSON.stringify(value), parse: (value): unknown => JSON.parse(value) };
const time: Codec = {
  serialize: (value) => (value instanceof Date ? value.toISOString() : String(value)),
  parse: (value) => new Date(value),
  isBare: true,
};
const bytes: Codec = {
  serialize: (value) => `\\x${Buffer.from(value as Uint8Array).toString('hex')}`,
  parse: (value) => Buffer.from(value.slice(2), 'hex'),
};

/** Object ids of array types, fixed in PostgreSQL's `pg_type.dat`. The driver would send a type that is missing here as `a,b`. */
const ARRAYS = {
  boolean: [1000, boolean],
  bytea: [1001, bytes],
  name: [1003, text],
  int2: [1005, number],
  int4: [1007, number],
  text: [1009, text],
  varchar: [1015, text],
  int8: [1016, number],
  float4: [1021, number],
  float8: [1022, number],
  date: [1182, time],
  timestamptz: [1185, time],
  numeric: [1231, text],
  uuid: [2951, text],
  json: [199, json],
  jsonb: [3807, json],
} as const satisfies Record<string, readonly [number, Codec]>;

const arrayType = (oid: number, codec: Codec): Postgres.PostgresType => ({
  to: oid,
  from: [oid],
  // A string is passed through as a PostgreSQL array literal, such as '{1,2}'.
  serialize: (value: unknown) => (Array.isArray(value) ? arrayText(value, codec) : String(value)),
  parse: (value: string) => parseArray(value, codec.parse),
});

/**
 * The driver's `types` option: the arrays above, and int8 as a number (ids and counts are safe integers; a larger value would
 * lose its last digits).
 */
const types: Record<string, Postgres.PostgresType> = {
  int8: { to: 20, from: [20], serialize: String, parse: Number },
  ...Object.fromEntries(Object.entries(ARRAYS).map(([name, [oid, codec]]) => [`${name}Array`, arrayType(oid, codec)])),
};

/** Returns whether the driver would declare this array as the type of its first element. */
function isMistyped(value: unknown): value is readonly unknown[] {
  if (!Array.isArray(value)) return false;
  const first: unknown = value[0];
  return typeof first === 'boolean' || first instanceof Date || first instanceof Uint8Array;
}

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
