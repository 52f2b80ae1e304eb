/** Classifies database errors by their codes: the server is unavailable, the statement must wait, or it is rejected. */

/** Returns the code of an error, of Node, `connection.ts` or PostgreSQL (its SQLSTATE); undefined without one. */
export function codeOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  // For a failed child process, `code` is its exit code, a number.
  return typeof code === 'string' ? code : undefined;
}

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
  const code = codeOf(error);
  if (code === undefined) return false;
  if (code === READ_ONLY.code) return READ_ONLY.message.test((error as Error).message);
  // SQLSTATE class 08 is "connection exception"; ENOENT is a missing socket file.
  return UNAVAILABLE.has(code) || code.startsWith('08') || (code === 'ENOENT' && isOfConnecting(error));
}

const isOfConnecting = (error: unknown): boolean => (error as Partial<NodeJS.ErrnoException>).syscall === 'connect';

/** Returns whether there was no connection, so that nothing was executed: the result of a COMMIT is known. */
export function hadNoConnection(error: unknown): boolean {
  return codeOf(error) === 'CONNECTION_SUSPENDED' || (error instanceof Error && isOfConnecting(error));
}

/** The SQLSTATE of our own triggers that refuse changes of shards that move to another database, or have just got one. */
export const SHARD_MOVES = 'HS001';

/** Returns whether a change was refused because its shard moves to another database, has moved, or has just got one. */
export function isMoving(error: unknown): boolean {
  return codeOf(error) === SHARD_MOVES;
}

/** Returns whether PostgreSQL refused a statement because its disk is full. */
export function isDiskFull(error: unknown): boolean {
  return codeOf(error) === '53100';
}

/** Returns whether a statement waited longer than `lock_timeout` for a row that another transaction has locked. */
export function isLockTimeout(error: unknown): boolean {
  return codeOf(error) === '55P03';
}

/**
 * SQLSTATE classes that concern the statement itself, so a retry fails, too: 22 data exception, 23 integrity constraint
 * violation, 54 program limit exceeded, P0 raised by a function.
 */
const REFUSALS: ReadonlySet<string> = new Set(['22', '23', '54', 'P0']);

/** Returns whether a retry cannot succeed. False for a deadlock, a cancelled statement and a fault of the driver. */
export function isRefused(error: unknown): boolean {
  const code = codeOf(error);
  return code?.length === 5 && REFUSALS.has(code.slice(0, 2));
}

/** Returns whether all numbers of a day are used: the sequence of its ids is at its limit. */
export function isOutOfNumbers(error: unknown): boolean {
  return codeOf(error) === '2200H';
}

/**
 * Returns whether the day of a row or id has no partition, or none with a sequence: the clock is days off, or no maintenance has succeeded
 * for days.
 */
function isWithoutPartition(error: unknown): boolean {
  const [code, message] = [codeOf(error), String((error as Partial<Error> | undefined)?.message)];
  return (
    (code === '23514' && message.startsWith('no partition of relation')) ||
    (code === '42P01' && /"(event|delivery)_n_d\d+"/.test(message))
  );
}

/** Returns whether PostgreSQL ended the transaction because of another one, so that it can be repeated. */
const isConflict = (error: unknown): boolean => ['40001', '40P01', '55P03'].includes(codeOf(error) ?? '');

/** Returns the message of a 503 if the database is the reason of an error, and undefined otherwise. */
export function whyUnavailable(error: unknown): string | undefined {
  if (isDiskFull(error))
    return 'The disk of the database is full (53100): nothing can be written until space is freed; try again then';
  if (isMoving(error)) return 'The shard of this store changes its database; try again in a few seconds';
  if (isUnavailable(error)) return 'The service cannot reach its database; try again shortly';
  if (isConflict(error)) return 'Another request changed the same at this moment; nothing was changed, try again';
  if (isWithoutPartition(error)) return 'The database has no tables for this day yet; try again shortly';
  if (isOutOfNumbers(error)) return 'All ids of this day are used; new ones are available from midnight UTC';
  return undefined;
}
