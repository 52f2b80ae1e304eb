/**
 * Time comes in by the door: `now` is wall-clock time for what people see, `monotonicMs` never jumps and is for spans.
 */
export type Clock = { now: () => Date; monotonicMs: () => number };

export const systemClock: Clock = { now: () => new Date(), monotonicMs: () => performance.now() };
