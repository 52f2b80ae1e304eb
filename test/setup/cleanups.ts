import { after } from 'node:test';

export type Cleanups = { after: (end: () => Promise<void>) => void };

/** Runs all cleanups, the last first, even if one throws: otherwise processes would outlive the test. */
export async function runCleanups(ends: readonly (() => Promise<void>)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const end of ends.toReversed()) {
    try {
      await end();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'the cleanup of a test failed');
}

/** Runs cleanups in reverse order; node:test runs its hooks in the order of registration. */
export function cleanups(): Cleanups {
  const ends: (() => Promise<void>)[] = [];
  after(() => runCleanups(ends));
  return { after: (end) => void ends.push(end) };
}
