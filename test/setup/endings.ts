import { after } from 'node:test';

export type Endings = { after: (end: () => Promise<void>) => void };

/** All of them, the last first, whatever one of them throws: what is left running would outlive the test. */
export const endAll = async (ends: readonly (() => Promise<void>)[]): Promise<void> => {
  const errors: unknown[] = [];
  for (const end of ends.toReversed()) {
    try {
      await end();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'What a test set up could not be taken down');
};

/** What a test set up is taken down in the opposite order; node:test runs its own hooks in the order they were named. */
export const endings = (): Endings => {
  const ends: (() => Promise<void>)[] = [];
  after(() => endAll(ends));
  return { after: (end) => void ends.push(end) };
};
