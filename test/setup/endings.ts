import { after } from 'node:test';

export type Endings = { after: (end: () => Promise<void>) => void };

/** What a test set up is taken down in the opposite order; node:test runs its own hooks in the order they were named. */
export const endings = (): Endings => {
  const ends: (() => Promise<void>)[] = [];
  after(async () => {
    for (const end of ends.toReversed()) await end();
  });
  return { after: (end) => void ends.push(end) };
};
