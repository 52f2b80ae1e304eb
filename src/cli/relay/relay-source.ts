/** The outbox table of a shop: its columns, its definition, and what a relay does with its rows. */
import { UsageError, UserError } from '../explain.ts';

/** `sent`: whether an earlier attempt may have published the row, and `expired` if the server may have forgotten the key since. */
export type OutboxRow = {
  /** A whole number. */
  id: string;
  storeId: string;
  event: string;
  /** JSON as the shop has written it; null if the column is null, or longer than `RESOURCE_BYTES`. */
  resource: string | null;
  sent: 'no' | 'maybe' | 'expired';
};

/** What became of rows. `unsent`: those that the server certainly has not got since `mark`. */
export type Settled = {
  published: readonly string[];
  refused: readonly { id: string; reason: string }[];
  unsent: readonly string[];
};

/** How many rows wait, of the first `WAITING_ROWS_MAX`, and the age of the oldest of them. */
export type Lag = { rows: number; oldestSeconds: number };

/** An open connection that has the lock of the table. Each function is one transaction. */
export type Source = {
  /** Names database and table; the same after a failover, and under another address. */
  name: string;
  /** Returns the first rows in the order of their ids, except those of these stores, up to the bytes of a round. */
  read: (limit: number, exceptStores: readonly string[]) => Promise<readonly OutboxRow[]>;
  /** Writes the time of the first attempt. */
  mark: (ids: readonly string[]) => Promise<void>;
  /** Deletes published rows, moves refused ones to the table of dead letters, and removes the mark of unsent ones. */
  settle: (settled: Settled) => Promise<void>;
  lag: () => Promise<Lag>;
  close: () => Promise<void>;
};

/** More than the limit of an event (256 KiB of JSON as Halcyon writes it; the shop may escape more characters). */
export const RESOURCE_BYTES = 1024 * 1024;
/**
 * The resources of one round, which are one request for each store, because the next one could overtake it. More than `RESOURCE_BYTES`,
 * so that a round has at least one row.
 */
export const ROUND_BYTES = 2 * 1024 * 1024;
/** The rows that are counted for the metrics, because the session that publishes counts them. */
export const WAITING_ROWS_MAX = 10_000;
/** The server keeps idempotency keys for 24 hours; an attempt and the clocks of the machines take less than an hour. */
export const KEY_HOURS = 23;
/** The time limit of a statement, and of a connection that does not respond. */
export const SILENCE_MS = 30_000;

/** `dead`: the table of dead letters, in the same schema. */
export type Table = { schema: string | undefined; outbox: string; dead: string };

/** PostgreSQL has names of at most 63 bytes, of which five are for `_dead`. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,57}$/;

export function readTable(text: string): Table {
  const parts = text.split('.');
  const outbox = parts.pop() ?? '';
  const [schema, ...more] = parts;
  if (more.length > 0 || ![outbox, schema ?? outbox].every((part) => NAME.test(part)))
    throw new UsageError('--table must be a name of letters, digits and _, or <schema>.<name>');
  return { schema, outbox, dead: `${outbox}_dead` };
}

// Compares the columns of a table with those that a relay needs.

const KINDS = {
  'a whole number': /^(?:tiny|small|medium|big)?int(?:eger)?$/,
  'a text or a whole number': /^(?:(?:tiny|small|medium|big)?int(?:eger)?|.*char.*|.*text)$/,
  'a text': /char|text$/,
  'a text or JSON': /char|text$|^jsonb?$/,
  'a timestamp with time zone': /^timestamp(?: with time zone)?$/,
} as const;

type Columns = Readonly<Record<string, keyof typeof KINDS>>;

const COMMON = {
  id: 'a whole number',
  store_id: 'a text or a whole number',
  event: 'a text',
  resource: 'a text or JSON',
};
const OUTBOX = {
  ...COMMON,
  date_created: 'a timestamp with time zone',
  date_attempted: 'a timestamp with time zone',
} as Columns;
const DEAD = { ...COMMON, reason: 'a text', date_refused: 'a timestamp with time zone' } as Columns;

type Column = { table: string; column: string; type: string };

/** Throws a `UserError` that names a table or column that is missing, or has another type. */
export function checkTables(found: readonly Column[], { outbox, dead }: Table, database: 'postgres' | 'mysql'): void {
  const advice = `halcyon relay --init ${database} prints the tables`;
  for (const [table, columns] of [
    [outbox, OUTBOX],
    [dead, DEAD],
  ] as const) {
    const types = new Map(found.flatMap((one) => (one.table === table ? [[one.column, one.type] as const] : [])));
    if (types.size === 0) throw new UserError(`The table ${table} does not exist, or is not visible: ${advice}`);
    for (const [column, kind] of Object.entries(columns)) {
      const type = types.get(column);
      if (type === undefined) throw new UserError(`${table} has no column ${column}, which is ${kind}: ${advice}`);
      if (!KINDS[kind].test(type)) throw new UserError(`${table}.${column} is ${type}, and must be ${kind}: ${advice}`);
    }
  }
}

// Classifies the errors of databases.

/**
 * SQLSTATE classes of errors that occur again: 0A not supported, 22 data, 23 constraints, 28 credentials, 3D no database, 42 names and
 * privileges.
 */
const PERMANENT = /^(?:0A|22|23|28|3D|42)/;

/** Returns what a source reports, and whether it may succeed later; undefined for an error that is not of a database. */
export function sourceError(error: unknown): { message: string; isTemporary: boolean } | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, sqlState } = error as { code?: unknown; sqlState?: unknown };
  // Node's own errors of wrong arguments have the code ERR_….
  if (typeof code !== 'string' || code.startsWith('ERR_')) return undefined;
  const state = typeof sqlState === 'string' && sqlState !== '' ? sqlState : code;
  return { message: error.message || code, isTemporary: !PERMANENT.test(state) };
}
