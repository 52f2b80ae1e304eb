/**
 * The breaker of a webhook: after five failures in a row it is tried by one exchange at a time, ever more rarely, until one
 * succeeds. What waits keeps its due time and is charged nothing. Pure: time and chance are given; times are monotonic.
 */
import type { Effect } from './effect.ts';
import { lengthened } from './jitter.ts';

/** An open breaker; a closed one is null. `failedProbes` counts what was tried in vain since it opened. */
export type Breaker = { failedProbes: number; probeAtMs: number };

const OPENS_AT_FAILURES = 5;
const PROBE_FIRST_MS = 10_000;
const PROBE_MAX_MS = 300_000;

/** Milliseconds from one probe to the next: doubled by each that failed. */
const gapMs = (failedProbes: number): number => Math.min(PROBE_FIRST_MS * 2 ** failedProbes, PROBE_MAX_MS);

/**
 * The breaker after an exchange ended at `nowMs` and left `failures` in a row. `isProbe`: it began while the breaker was open.
 * What began before and fails later says nothing that opened it not: 32 exchanges that one restart of an endpoint cut off
 * would otherwise make its first probe wait for 5 minutes.
 */
export const breakerAfter = (
  breaker: Breaker | null,
  exchange: { effect: Effect; failures: number; isProbe: boolean; nowMs: number; random: number },
): Breaker | null => {
  const { effect, failures, isProbe, nowMs, random } = exchange;
  if (effect === 'success') return null;
  if (breaker === null) {
    if (effect === 'nothing' || failures < OPENS_AT_FAILURES) return null;
    return { failedProbes: 0, probeAtMs: nowMs + lengthened(gapMs(0), random) };
  }
  if (!isProbe) return breaker;
  // A pause or a fault of our own says nothing of the endpoint: soon another probe, no sooner than any first one.
  if (effect === 'nothing') return { ...breaker, probeAtMs: nowMs + lengthened(gapMs(0), random) };
  const failedProbes = breaker.failedProbes + 1;
  return { failedProbes, probeAtMs: nowMs + lengthened(gapMs(failedProbes), random) };
};

/**
 * The breaker as the table has it: what an owner before us learnt. How many probes failed is not kept, for the failures in a
 * row tell it well enough: those that were under way when it opened are counted too, so the gap is too long rather than too
 * short. `waitMs` until the next probe.
 */
export const restoreBreaker = (stored: { failures: number; waitMs: number }, nowMs: number): Breaker | null => {
  const { failures, waitMs } = stored;
  if (failures < OPENS_AT_FAILURES) return null;
  const longestMs = lengthened(PROBE_MAX_MS, 1);
  return { failedProbes: failures - OPENS_AT_FAILURES, probeAtMs: nowMs + Math.min(Math.max(0, waitMs), longestMs) };
};
