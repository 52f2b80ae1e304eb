import { systemClock, type Clock } from '#core/clock.ts';

export type TestClock = Clock & { advance: (ms: number) => void };

/** Real time plus what the test added to it: a clock on the wall that is set. */
export const testClock = (): TestClock => {
  let addedMs = 0;
  return {
    now: () => new Date(Date.now() + addedMs),
    monotonicMs: systemClock.monotonicMs,
    advance: (ms) => void (addedMs += ms),
  };
};

/** One on which time passes: `advance` moves spans too, and `set` the clock on the wall alone. */
export type PassingClock = TestClock & { set: (ms: number) => void };

export const passingClock = (): PassingClock => {
  const wall = testClock();
  let passedMs = 0;
  return {
    now: wall.now,
    monotonicMs: () => systemClock.monotonicMs() + passedMs,
    advance: (ms) => {
      wall.advance(ms);
      passedMs += ms;
    },
    set: wall.advance,
  };
};

/** One that stands still but for `advance`: however long a machine pauses, no lease ends by itself. */
export const standingClock = (): TestClock => {
  let nowMs = Date.now();
  return {
    now: () => new Date(nowMs),
    monotonicMs: () => nowMs,
    advance: (ms) => void (nowMs += ms),
  };
};
