/**
 * How much a long test does: all of it by hand, a part of it in `.ci/run`, where HALCYON_TEST_PART is set; there one of
 * these tests does all of it each day, in turn.
 */
const IN_TURN = [
  'hostile-receivers',
  'malformed',
  'natural',
  'publish-kill',
  'recovery',
  'switch-off',
  'switching',
  'worker-kill',
] as const;

const DAY_MS = 86_400_000;

/** Of the test with this name; `all` and `part` are counts of whatever it repeats. */
export function amountOf(name: (typeof IN_TURN)[number], { all, part }: { all: number; part: number }): number {
  const isItsTurn = IN_TURN[Math.floor(Date.now() / DAY_MS) % IN_TURN.length] === name;
  return process.env['HALCYON_TEST_PART'] === undefined || isItsTurn ? all : part;
}
