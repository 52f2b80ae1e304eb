/** Start and stop of the components of a process, its readiness for load balancers and supervisors, and its quiet times. */
// Tests replace these timers, which an import by name would not see.
import timers from 'node:timers/promises';
import type { Clock } from './clock.ts';
import type { Log } from './log.ts';

/** A running component: started by its creation, ended by `stop`, which may be called twice. */
export type Running = { stop: () => Promise<void> };

/** Resolves with the result of the work, or with `late` after the time limit; the work goes on then. */
export async function inTime<T, Late>(limitMs: number, work: Promise<T>, late: Late): Promise<T | Late> {
  const { promise, resolve } = Promise.withResolvers<Late>();
  using _timer = setTimeout(() => resolve(late), limitMs);
  return await Promise.race([work, promise]);
}

/** Limits the wait for the stop of a component; what it has not completed then ends with the process. */
export function within(limitMs: number, component: Running): Running {
  return { stop: () => inTime(limitMs, component.stop(), undefined) };
}

/**
 * Starts a component that runs until its signal is aborted, which `stop` does. `run` must not reject, and is awaited by `stop`.
 */
export function untilStopped(run: (signal: AbortSignal) => Promise<void>): Running {
  const stopping = new AbortController();
  const running = run(stopping.signal);
  return {
    stop: async () => {
      stopping.abort();
      await running;
    },
  };
}

/** Stops the components in reverse order. A failed stop does not prevent the others. */
export async function stopAll(running: readonly Running[], log: Log): Promise<void> {
  for (const component of running.toReversed()) {
    await component.stop().catch((error: unknown) => log.error({ err: error }, 'stopping a component failed'));
  }
}

/** Returns the name of what is unavailable; undefined if nothing is. It never rejects, and returns within a second. */
export type Check = () => string | undefined | Promise<string | undefined>;

/** The response body. It contains only names, because the endpoint is public. */
type Readiness = { status: 'ready' } | { status: 'unready'; missing: readonly string[] };

export type Health = {
  readiness: () => Promise<Readiness>;
  /** Marks the process as started; it is ready if all checks pass. */
  started: () => void;
  /** Marks the process as unready; called before anything is stopped. */
  stopping: () => void;
  isStopping: () => boolean;
};

const unready = (missing: readonly string[]): Readiness => ({ status: 'unready', missing });

export function createHealth(checks: readonly Check[]): Health {
  let phase: 'starting' | 'running' | 'stopping' = 'starting';
  return {
    readiness: async () => {
      if (phase !== 'running') return unready([phase]);
      const missing = (await Promise.all(checks.map(async (check) => check()))).filter((name) => name !== undefined);
      // A stop may have begun during the checks.
      if (phase !== 'running') return unready([phase]);
      return missing.length === 0 ? { status: 'ready' } : unready(missing);
    },
    started: () => void (phase = 'running'),
    stopping: () => void (phase = 'stopping'),
    isStopping: () => phase === 'stopping',
  };
}

/** How long a process looks for work as before after its last work. */
const QUIET_AFTER_MS = 60_000;
/** The longest pause. Requests and notifications end a quiet time, so this is for what they do not announce, such as the end of a day. */
const LONGEST_PAUSE_MS = 3_600_000;

/** How long the first request after a quiet time waits at most: a database may not respond. */
const REFRESH_MAX_MS = 2_000;

/** How often a process looks for work: seldom while it has none, so that an idle installation leaves its database alone. */
export class Pace {
  readonly #clock: Clock;
  readonly #refreshes: (() => Promise<void>)[] = [];
  #refreshing: Promise<unknown> | undefined;
  #worksAtMs: number;
  #othersWorkAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#worksAtMs = clock.monotonicMs();
  }

  /** Adds what has to be done before a process does work again after a quiet time. */
  refreshBy(refresh: () => Promise<void>): void {
    this.#refreshes.push(refresh);
  }

  /** Monotonic time of the latest work of this process. */
  get worksAtMs(): number {
    return this.#worksAtMs;
  }

  /** Returns whether neither this process nor another one has had work for a minute. */
  get isQuiet(): boolean {
    return this.#clock.monotonicMs() - Math.max(this.#worksAtMs, this.#othersWorkAtMs) >= QUIET_AFTER_MS;
  }

  /**
   * Notes work of this process. After a quiet time returns a promise, which resolves when everything is refreshed, or two seconds have
   * passed.
   */
  readonly work = (): Promise<unknown> | undefined => {
    const wasQuiet = this.isQuiet;
    this.#worksAtMs = this.#clock.monotonicMs();
    if (wasQuiet) this.#refresh();
    return this.#refreshing;
  };

  /** Notes that another process has work, which may become work of this one. */
  othersWork(): void {
    if (this.isQuiet) this.#refresh();
    this.#othersWorkAtMs = this.#clock.monotonicMs();
  }

  /** Waits for `ms`, and longer while the process is quiet. Resolves early if the signal is aborted. */
  async pause(ms: number, signal: AbortSignal): Promise<void> {
    const startedMs = this.#clock.monotonicMs();
    do await timers.setTimeout(ms, undefined, { signal }).catch(() => {});
    while (!signal.aborted && this.isQuiet && this.#clock.monotonicMs() - startedMs < LONGEST_PAUSE_MS);
  }

  /** Calls `run` after each such pause until the signal is aborted. `run` must not reject. */
  async repeat(ms: number, run: () => unknown, signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.pause(ms, signal);
      if (signal.aborted) return;
      await run();
    }
  }

  #refresh(): void {
    const done = new AbortController();
    const late = timers.setTimeout(REFRESH_MAX_MS, undefined, { signal: done.signal }).catch(() => {});
    const refreshed = Promise.all(this.#refreshes.map((refresh) => refresh())).finally(() => done.abort());
    const refreshing = Promise.race([refreshed, late]);
    const end = () => {
      if (this.#refreshing === refreshing) this.#refreshing = undefined;
    };
    this.#refreshing = refreshing;
    refreshing.then(end, end);
  }
}
