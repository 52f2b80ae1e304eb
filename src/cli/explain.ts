import { DatabaseError } from '#database/pool.ts';
import { Problem } from '#kernel/problem.ts';
import { ConfigError } from '#env.ts';

/** How a command ends that did not do all it was asked for. */
export const EXIT = Object.freeze({ failed: 1, incomplete: 2, unreachable: 3, interrupted: 130 });

/** Something the person at the terminal can mend; the message is one line that says how. */
export class UserError extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number = EXIT.failed) {
    super(message);
    this.exitCode = exitCode;
  }
}

export const exitCodeOf = (error: unknown): number => (error instanceof UserError ? error.exitCode : EXIT.failed);

/** One line for what a person can mend; the whole story for what is our fault. */
export const explain = (error: unknown): string => {
  const isExpected =
    error instanceof UserError ||
    error instanceof ConfigError ||
    error instanceof DatabaseError ||
    error instanceof Problem;
  if (isExpected) return `halcyon: ${error.message}`;
  return `halcyon: something went wrong that should not; please report this:\n${error instanceof Error ? error.stack : String(error)}`;
};
