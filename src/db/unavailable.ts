/**
 * Classifies database errors: the server is unavailable, or the statement itself is rejected. Also has the remedies for an unusable
 * PostgreSQL, by the error code of Node, the driver or the server.
 */

/** Codes of Node and of `connection.ts` for a failed or lost connection. */
const CONNECTION: readonly string[] = [
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'CONNECTION_SUSPENDED',
];

/**
 * SQLSTATEs that concern the server, independent of the statement. Not included, because a batch is split to find the poison row:
 * 40001 and 40P01 (conflict with another transaction, can be retried), 57014 and 55P03 (time-out), 53200 and 53400 (a smaller
 * statement may succeed), 58030 and XX001 (the unreadable page belongs to some row).
 */
const SERVER: readonly string[] = [
  '57P01', // shut down by an operator
  '57P02', // a backend crashed, and all restart
  '57P03', // not yet started
  '57P05', // the session was idle for too long
  '25P03', // the transaction was idle for too long
  '25P04', // the transaction took too long
  '53100', // the disk is full
  '53300', // too many connections
  '25006', // read-only: a standby that is not promoted yet, or a demoted primary
];

const UNAVAILABLE: ReadonlySet<unknown> = new Set([...CONNECTION, ...SERVER]);

/** A standby rejects `begin read write` with the general code for "feature not supported". */
const READ_ONLY = { code: '0A000', message: /during recovery$/ };

/**
 * Returns whether the error concerns the server and not the statement. The result of a COMMIT that fails with such an error is
 * unknown.
 */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  // For a failed child process, `code` is its exit code, a number.
  if (typeof code !== 'string') return false;
  if (code === READ_ONLY.code) return READ_ONLY.message.test(error.message);
  // SQLSTATE class 08 is "connection exception"; ENOENT is a missing socket file.
  return UNAVAILABLE.has(code) || code.startsWith('08') || (code === 'ENOENT' && syscall === 'connect');
}

/** Returns whether there was no connection, so that nothing was executed: the result of a COMMIT is known. */
export function hadNoConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  return code === 'CONNECTION_SUSPENDED' || syscall === 'connect';
}

/** The SQLSTATE of our own triggers that refuse changes of shards that move to another database, or have just got one. */
export const SHARD_MOVES = 'HS001';

/** Returns whether a change was refused because its shard moves to another database, has moved, or has just got one. */
export function isMoving(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === SHARD_MOVES;
}

/** Returns whether PostgreSQL refused a statement because its disk is full. */
export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === '53100';
}

/** Returns whether a statement waited longer than `lock_timeout` for a row that another transaction has locked. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === '55P03';
}

/**
 * SQLSTATE classes that concern the statement itself, so a retry fails, too: 22 data exception, 23 integrity constraint
 * violation, 54 program limit exceeded, P0 raised by a function.
 */
const REFUSALS: ReadonlySet<string> = new Set(['22', '23', '54', 'P0']);

/** Returns whether a retry cannot succeed. False for a deadlock, a cancelled statement and a fault of the driver. */
export function isRefused(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  return code?.length === 5 && REFUSALS.has(code.slice(0, 2));
}

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

export function remedyOf(error: unknown): string {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  const known = code !== undefined && Object.hasOwn(REMEDIES, code) ? REMEDIES[code] : undefined;
  return known ?? 'Check DATABASE_URL and that the server runs';
}
