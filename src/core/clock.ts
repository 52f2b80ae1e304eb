/** Injected time: `now` is wall-clock time for display, `monotonicMs` never jumps and is for durations. */
export type Clock = { now: () => Date; monotonicMs: () => number };

export const systemClock: Clock = { now: () => new Date(), monotonicMs: () => performance.now() };
