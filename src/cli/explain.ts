/** Turns the error of a command into an exit code and a message. */
import { CommanderError } from 'commander';
import { DatabaseError } from '#db/pool.ts';
import { UnusableError } from '#db/usable.ts';
import { isMoving, isUnavailable } from '#db/unavailable.ts';
import { Problem } from '#core/problem.ts';
import { ConfigError } from '#core/config-error.ts';

/** Exit codes of commands that did not complete. */
export const EXIT = Object.freeze({ failed: 1, usage: 2, incomplete: 2, unreachable: 3, interrupted: 130 });

/** The table of exit codes in `halcyon --help`; a test compares it with docs/operating.md. */
export const EXIT_CODES: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'done'],
  [EXIT.failed, 'failed; the message says what to change'],
  [
    EXIT.usage,
    'unknown command, option or argument; or the work is incomplete, and the message says what remains to be done',
  ],
  [EXIT.unreachable, 'the database or the server does not answer'],
  [EXIT.interrupted, 'interrupted (ctrl-C)'],
];

/** An error that the user can fix; the message is one line with the remedy. */
export class UserError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** A wrong command line; nothing was started. */
export class UsageError extends UserError {
  constructor(message: string) {
    super(message, EXIT.usage);
  }
}

const CODES: Readonly<Record<number, string>> = {
  [EXIT.failed]: 'failed',
  [EXIT.incomplete]: 'incomplete',
  [EXIT.unreachable]: 'unreachable',
  [EXIT.interrupted]: 'interrupted',
};

/** Remedies by the error code of Node or the SQLSTATE. */
const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full: free space, then run this again',
  EDQUOT: 'the disk quota is used up: free space, then run this again',
  EACCES: 'run this as the user that owns the files, or change the permissions',
  EPERM: 'run this as the user that owns the files, or change the permissions',
  EROFS: 'the file system is read-only: choose a writable folder',
  EMFILE: 'too many open files: raise the limit (ulimit -n)',
  EADDRINUSE: 'the port is taken: stop the process that uses it, or set PORT or METRICS_PORT to another',
  '53100': 'the disk of the database is full: free space, then run this again',
  '42501': 'the user of DATABASE_URL lacks the privilege: connect as the owner of the database',
  '42P01': 'the database lacks tables of this version: run halcyon migrate, or halcyon doctor for details',
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** Returns the remedy of the first error in the chain of causes that has one. */
function remedyOf(error: unknown): string | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code !== undefined && Object.hasOwn(REMEDIES, code)) return REMEDIES[code];
  }
  return undefined;
}

/** Returns exit code, error code and message. `isInternal`: an error that the user cannot fix. */
function failureOf(error: unknown): { exitCode: number; code: string; message: string; isInternal?: true } {
  if (error instanceof UsageError || error instanceof CommanderError)
    return { exitCode: EXIT.usage, code: 'usage', message: error.message };
  if (error instanceof UserError)
    return { exitCode: error.exitCode, code: CODES[error.exitCode] ?? 'failed', message: error.message };
  if (error instanceof ConfigError) return { exitCode: EXIT.failed, code: 'configuration', message: error.message };
  if (error instanceof DatabaseError) {
    const advice = error instanceof UnusableError ? undefined : remedyOf(error.cause);
    if (advice === undefined && isUnavailable(error.cause))
      return { exitCode: EXIT.unreachable, code: 'unreachable', message: error.message };
    const message = advice === undefined ? error.message : `${error.message}; ${advice}`;
    return { exitCode: EXIT.failed, code: 'database', message };
  }
  if (error instanceof Problem)
    return { exitCode: EXIT.failed, code: error.faults[0]?.code ?? 'failed', message: error.message };
  // Also after `migrate` with a map of shards: until all processes have read it, no store of another database is made.
  if (isMoving(error)) return { exitCode: EXIT.unreachable, code: 'unreachable', message: messageOf(error) };
  const advice = remedyOf(error);
  if (advice !== undefined) return { exitCode: EXIT.failed, code: 'failed', message: `${messageOf(error)}; ${advice}` };
  if (isUnavailable(error)) {
    const message = `The database became unavailable (${messageOf(error)}): check that it runs, then run this again`;
    return { exitCode: EXIT.unreachable, code: 'unreachable', message };
  }
  return { exitCode: EXIT.failed, code: 'internal', message: stackOf(error), isInternal: true };
}

/** Returns whether commander printed the help or the version, which is not a failure. */
const isHelpOrVersion = (error: unknown): boolean => error instanceof CommanderError && error.exitCode === 0;

export function exitCodeOf(error: unknown): number {
  return isHelpOrVersion(error) ? 0 : failureOf(error).exitCode;
}

/**
 * Returns one line for an error that the user can fix, and the stack for an internal error. With `isJson` it is the one-line object
 * `{"error":{code,message}}`. Returns undefined for help and version.
 */
export function explain(error: unknown, isJson = false): string | undefined {
  if (isHelpOrVersion(error)) return undefined;
  const { code, message, isInternal } = failureOf(error);
  if (isJson) return JSON.stringify({ error: { code, message } });
  if (isInternal !== true) return `halcyon: ${message}`;
  return `halcyon: internal error; please report this:\n${message}`;
}
