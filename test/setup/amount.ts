/**
 * The amount of work of a long test: all by hand, a part in `.ci/run`, which sets HALCYON_TEST_PART. Each day one of these tests
 * does all of its work there, in rotation.
 */
const IN_TURN = [
  'disable-enable-races',
  'disable-with-backlog',
  'event-catalogue',
  'fuzzing',
  'hostile-receivers',
  'malformed',
  'publish-kill',
  'realistic-load',
  'recovery',
  'worker-kill',
] as const;

const DAY_MS = 86_400_000;

/** Returns the amount for the test with this name; `all` and `part` are repetition counts. */
export function amountOf(name: (typeof IN_TURN)[number], { all, part }: { all: number; part: number }): number {
  const isItsTurn = IN_TURN[Math.floor(Date.now() / DAY_MS) % IN_TURN.length] === name;
  return process.env['HALCYON_TEST_PART'] === undefined || isItsTurn ? all : part;
}
