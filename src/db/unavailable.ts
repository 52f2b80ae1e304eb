/** What an error of the database says: that nobody can be asked, or that what was asked is refused. */

/** Of Node and the driver: no connection, or none any more. */
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
];

/**
 * SQLSTATEs that are about the server, whatever it was asked. Not among them: 40001 and 40P01 (others were in the way:
 * whoever can asks again), 57014 and 55P03 (it took too long), 53200 and 53400 (half as much may do), 58030 and XX001
 * (a page that cannot be read is that of some row): there a batch is told apart from the poison in it.
 */
const SERVER: readonly string[] = [
  '57P01', // shut down by an operator
  '57P02', // a process crashed, and all start anew
  '57P03', // not yet started
  '57P05', // the session was idle for too long
  '25P03', // so was the transaction
  '53100', // the disk is full
  '53300', // too many connections
  '25006', // it only reads: a standby that is not promoted yet, or a primary that is none any more
];

const UNAVAILABLE: ReadonlySet<unknown> = new Set([...CONNECTION, ...SERVER]);

/** What a standby says to `begin read write`, under the code of whatever is not implemented. */
const ONLY_READS = { code: '0A000', message: /during recovery$/ };

/**
 * Whether the error says that the server cannot be asked right now, or not for this, and nothing about what was asked. The
 * result of a COMMIT that ends so is unknown.
 */
export const isUnavailable = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  // The error of a program that failed has its exit code there.
  if (typeof code !== 'string') return false;
  if (code === ONLY_READS.code) return ONLY_READS.message.test(error.message);
  // SQLSTATE class 08 is "connection exception"; ENOENT is a socket file that is not there (yet).
  return UNAVAILABLE.has(code) || code.startsWith('08') || (code === 'ENOENT' && syscall === 'connect');
};

/** Returns whether PostgreSQL refused a statement because its disk is full. */
export const isDiskFull = (error: unknown): boolean =>
  error instanceof Error && (error as NodeJS.ErrnoException).code === '53100';

/** Returns whether a statement waited longer than `lock_timeout` for a row that another transaction has locked. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof Error && (error as NodeJS.ErrnoException).code === '55P03';

/**
 * SQLSTATE classes that are about what was asked, whoever asks and whenever: 22 data exception, 23 integrity constraint
 * violation, 54 program limit exceeded, P0 raised by a function.
 */
const REFUSALS: ReadonlySet<string> = new Set(['22', '23', '54', 'P0']);

/** Whether asking again is in vain. Neither a deadlock, nor a cancelled statement, nor a fault of the driver says so. */
export const isRefused = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  return code?.length === 5 && REFUSALS.has(code.slice(0, 2));
};
