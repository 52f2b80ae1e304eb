/**
 * The amount of work of a test that repeats something: a part in `npm test` and `.ci/run`, which say so with HALCYON_TEST_PART, and
 * all by hand, for a mutation, and in `.ci/run --full`. Each day one of these tests does all of its work everywhere, in rotation.
 */
const IN_TURN = [
  'any-form',
  'any-json',
  'attempt-requests',
  'body-cost',
  'commands',
  'delivery-order',
  'disable-enable-races',
  'disable-with-backlog',
  'event-catalogue',
  'fuzzing',
  'hostile-receivers',
  'lists-model',
  'malformed',
  'misplaced-secrets',
  'model',
  'not-arrived',
  'payload-filter',
  'platform-changes',
  'publish-kill',
  'restarts',
  'realistic-load',
  'recovery',
  'redirected-secrets',
  'resource-order',
  'worker-kill',
] as const;

const DAY_MS = 86_400_000;

/** Returns the amount for the test with this name; `all` and `part` are repetition counts. */
export function amountOf(name: (typeof IN_TURN)[number], { all, part }: { all: number; part: number }): number {
  const isItsTurn = IN_TURN[Math.floor(Date.now() / DAY_MS) % IN_TURN.length] === name;
  return process.env['HALCYON_TEST_PART'] === undefined || isItsTurn ? all : part;
}
