/** Scales of chart axes. */

/** The values of the grid lines, ascending and equidistant. */
export type Scale = { ticks: readonly number[]; shareOf: (value: number) => number };

const STEPS = 3;

/** Returns the smallest round step, 1, 2, 2.5 or 5 times a power of ten, that is at least `least`. */
function roundStep(least: number, leastStep: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  // Integers have no half: 2.5 attempts are no step, 25 are.
  const factors = leastStep === 1 && power === 1 ? [1, 2, 5] : [1, 2, 2.5, 5];
  const factor = factors.find((candidate) => candidate * power >= least * (1 - 1e-9)) ?? 10;
  return factor * power;
}

/**
 * Returns a scale that includes zero, so that heights are proportional to values; zeros alone get one step. `leastStep`
 * is 1 for integers.
 */
export function scaleOf(values: readonly number[], leastStep = 0): Scale {
  const low = values.reduce((least, value) => Math.min(least, value), 0);
  const high = values.reduce((most, value) => Math.max(most, value), 0);
  const span = high - low;
  // The span is not representable: all values are drawn at the bottom.
  if (!Number.isFinite(span)) return { ticks: [0, 1], shareOf: () => 0 };
  const step = span > 0 ? Math.max(roundStep(span / STEPS, leastStep), leastStep) : 1;
  const first = Math.floor(low / step);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  // Computed from the index; repeated addition would give 0.30000000000000004.
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
  return { ticks, shareOf: (value) => (value - first * step) / ((last - first) * step) };
}

const DAY_MS = 86_400_000;
export function dayNumberOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`) / DAY_MS;
}
export function dayOfNumber(number: number): string {
  return new Date(number * DAY_MS).toISOString().slice(0, 10);
}
