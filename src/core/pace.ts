/** How often a process looks for work: seldom while it has none, so that an idle installation leaves its database alone. */
// Tests replace these timers, which an import by name would not see.
import timers from 'node:timers/promises';
import type { Clock } from './clock.ts';

/** How long a process looks for work as before after its last work. */
const QUIET_AFTER_MS = 60_000;
/** The longest pause. Requests and notifications end a quiet time, so this is for what they do not announce, such as the end of a day. */
const LONGEST_PAUSE_MS = 3_600_000;

export class Pace {
  readonly #clock: Clock;
  readonly #checks: (() => boolean)[] = [];
  readonly #refreshes: (() => Promise<void>)[] = [];
  #refreshing: Promise<unknown> = Promise.resolve();
  #worksAtMs: number;
  #othersWorkAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#worksAtMs = clock.monotonicMs();
  }

  /** Adds a part that may have work. */
  watch(hasWork: () => boolean): void {
    this.#checks.push(hasWork);
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
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - Math.max(this.#worksAtMs, this.#othersWorkAtMs) < QUIET_AFTER_MS) return false;
    if (!this.#checks.some((hasWork) => hasWork())) return true;
    this.#worksAtMs = nowMs;
    return false;
  }

  /** Notes work of this process. After a quiet time, resolves when everything is refreshed. */
  async work(): Promise<void> {
    if (this.isQuiet) this.#refresh();
    this.#worksAtMs = this.#clock.monotonicMs();
    await this.#refreshing;
  }

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
    this.#refreshing = Promise.all(this.#refreshes.map((refresh) => refresh()));
  }
}
