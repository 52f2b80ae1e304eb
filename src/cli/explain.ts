import { CommanderError } from 'commander';
import { DatabaseError, UnusableError } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { Problem } from '#core/problem.ts';
import { ConfigError } from '#config/env.ts';

/** How a command ends that did not do all it was asked for. */
export const EXIT = Object.freeze({ failed: 1, usage: 2, incomplete: 2, unreachable: 3, interrupted: 130 });

/** The one table of them: `halcyon --help` shows it, and docs/operating.md has the same (a test compares). */
export const EXIT_CODES: readonly (readonly [code: number, meaning: string])[] = [
  [0, 'done'],
  [EXIT.failed, 'failed; the message says what to change'],
  [EXIT.usage, 'no such command, option or argument; or done in part, and the message says what is left'],
  [EXIT.unreachable, 'the database or the server does not answer'],
  [EXIT.interrupted, 'interrupted (ctrl-C)'],
];

/** Something the person at the terminal can mend; the message is one line that says how. */
export class UserError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** It was typed wrong: nothing was begun. */
export class UsageError extends UserError {
  constructor(message: string) {
    super(message, EXIT.usage);
  }
}

type End = { exitCode: number; code: string; message: string };

const CODES: Readonly<Record<number, string>> = {
  [EXIT.failed]: 'failed',
  [EXIT.incomplete]: 'incomplete',
  [EXIT.unreachable]: 'unreachable',
  [EXIT.interrupted]: 'interrupted',
};

/** What the machine or the database refuses, by the code of Node or the SQLSTATE, and what to do about it. */
const REFUSALS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full: make room, then run this again',
  EDQUOT: 'the quota of the disk is used up: make room, then run this again',
  EACCES: 'this user may not do that: run it as the user that owns the files, or change who may',
  EPERM: 'this user may not do that: run it as the user that owns the files, or change who may',
  EROFS: 'the file system is read-only: name a folder that can be written',
  EMFILE: 'too many files are open: raise the limit (ulimit -n)',
  EADDRINUSE: 'the port is taken: stop what uses it, or set PORT or METRICS_PORT to another',
  '53100': 'the disk of the database is full: make room, then run this again',
  '42501': 'the user of DATABASE_URL may not do that: connect as the owner of the database',
  '42P01': 'the database has not the tables of this version: run halcyon migrate, or halcyon doctor to see what it has',
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const stackOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** The first code on the way from an error to what caused it that somebody can do something about. */
const refusalOf = (error: unknown): string | undefined => {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as NodeJS.ErrnoException;
    if (code !== undefined && Object.hasOwn(REFUSALS, code)) return REFUSALS[code];
  }
  return undefined;
};

/** `isOurs`: nobody at the terminal can mend it. */
const endOf = (error: unknown): End & { isOurs?: true } => {
  if (error instanceof UsageError) return { exitCode: error.exitCode, code: 'usage', message: error.message };
  if (error instanceof UserError)
    return { exitCode: error.exitCode, code: CODES[error.exitCode] ?? 'failed', message: error.message };
  if (error instanceof CommanderError) return { exitCode: EXIT.usage, code: 'usage', message: error.message };
  if (error instanceof ConfigError) return { exitCode: EXIT.failed, code: 'configuration', message: error.message };
  if (error instanceof DatabaseError) {
    const advice = error instanceof UnusableError ? undefined : refusalOf(error.cause);
    if (advice === undefined && isUnavailable(error.cause))
      return { exitCode: EXIT.unreachable, code: 'unreachable', message: error.message };
    const message = advice === undefined ? error.message : `${error.message}; ${advice}`;
    return { exitCode: EXIT.failed, code: 'database', message };
  }
  if (error instanceof Problem)
    return { exitCode: EXIT.failed, code: error.faults[0]?.code ?? 'failed', message: error.message };
  const advice = refusalOf(error);
  if (advice !== undefined) return { exitCode: EXIT.failed, code: 'failed', message: `${messageOf(error)}; ${advice}` };
  if (isUnavailable(error)) {
    const message = `The database went away (${messageOf(error)}): see that it runs, then run this again`;
    return { exitCode: EXIT.unreachable, code: 'unreachable', message };
  }
  return { exitCode: EXIT.failed, code: 'internal', message: stackOf(error), isOurs: true };
};

/** Whether it was only asked for help or the version: nothing has failed, and all is said. */
const isAnswered = (error: unknown): boolean => error instanceof CommanderError && error.exitCode === 0;

export const exitCodeOf = (error: unknown): number => (isAnswered(error) ? 0 : endOf(error).exitCode);

/**
 * One line for what a person can mend; the whole story for what is our fault. With `isJson` an object `{"error":{code,message}}`,
 * which is always one line. Undefined where there is nothing to say.
 */
export const explain = (error: unknown, isJson = false): string | undefined => {
  if (isAnswered(error)) return undefined;
  const { code, message, isOurs } = endOf(error);
  if (isJson) return JSON.stringify({ error: { code, message } });
  if (isOurs !== true) return `halcyon: ${message}`;
  return `halcyon: something went wrong that should not; please report this:\n${message}`;
};
