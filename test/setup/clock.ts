import { systemClock, type Clock } from '#kernel/clock.ts';

export type TestClock = Clock & { advance: (ms: number) => void };

/** Real time plus what the test added to it. */
export const testClock = (): TestClock => {
  let addedMs = 0;
  return {
    now: () => new Date(Date.now() + addedMs),
    monotonicMs: systemClock.monotonicMs,
    advance: (ms) => void (addedMs += ms),
  };
};
