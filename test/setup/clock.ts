import { once } from 'node:events';
import { systemClock, type Clock } from '#core/clock.ts';
import { Pace } from '#core/lifecycle.ts';

export type TestClock = Clock & { advance: (ms: number) => void };

/** A clock that shows real time plus an offset set by the test. */
export function testClock(): TestClock {
  let addedMs = 0;
  return {
    now: () => new Date(Date.now() + addedMs),
    monotonicMs: systemClock.monotonicMs,
    advance: (ms) => void (addedMs += ms),
  };
}

/** `advance` moves wall clock and monotonic clock, `set` only the wall clock. */
export type PassingClock = TestClock & { set: (ms: number) => void };

/** A running clock. */
export function passingClock(): PassingClock {
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
}

/** A clock that moves only by `advance` and `set`: no lease expires and no response is slow if the machine pauses. */
export function standingClock(): PassingClock {
  let [nowMs, passedMs] = [Date.now(), 0];
  return {
    now: () => new Date(nowMs),
    monotonicMs: () => passedMs,
    advance: (ms) => {
      nowMs += ms;
      passedMs += ms;
    },
    set: (ms) => void (nowMs += ms),
  };
}

const STANDING = { now: () => new Date(0), monotonicMs: () => 0 };

/** The pace of a process that never becomes quiet. */
export const NEVER_QUIET = new Pace(STANDING);

const SELDOM_MS = 60_000;

/**
 * The pace of an application that never becomes quiet, and runs nothing that runs each minute or more seldom, such as retention: only a test
 * on a slow machine lasts that long, and it would be another test.
 */
export class BriefPace extends Pace {
  constructor() {
    super(STANDING);
  }

  override async repeat(ms: number, run: () => unknown, signal: AbortSignal): Promise<void> {
    if (ms < SELDOM_MS) return super.repeat(ms, run, signal);
    if (!signal.aborted) await once(signal, 'abort');
  }
}
