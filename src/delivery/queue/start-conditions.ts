/** Whether a lane may start an exchange now: pause, breaker and pace in one. All times are monotonic, in ms. */
import { NO_BACKOFF, type Backoff } from '../policy/backoff.ts';
import { CATCH_UP_MS, nextStartAfter } from '../policy/rate-limit.ts';

export class StartConditions {
  backoff: Backoff = NO_BACKOFF;
  #rateLimitedUntilMs = Number.NEGATIVE_INFINITY;
  #isProbing = false;

  /** From when on the next exchange may start, as far as the gate is asked. */
  get earliestStartMs(): number {
    const { pausedUntilMs, breaker } = this.backoff;
    return Math.max(pausedUntilMs, breaker?.probeAtMs ?? pausedUntilMs, this.#rateLimitedUntilMs);
  }

  isPaused(nowMs: number): boolean {
    return this.backoff.pausedUntilMs > nowMs;
  }

  /** Its breaker is open: what it starts is a probe. */
  get isBreakerOpen(): boolean {
    return this.backoff.breaker !== null;
  }

  /** Its endpoint keeps the lane waiting. While a late start can be made up for, the pace is kept, and nobody else does. */
  isBlocked(nowMs: number): boolean {
    return this.isBreakerOpen || this.isPaused(nowMs) || nowMs <= this.#rateLimitedUntilMs + CATCH_UP_MS;
  }

  /** The exchange under way is a probe. It is the only one then. */
  get isProbing(): boolean {
    return this.#isProbing;
  }

  /** While the breaker is open an exchange starts when there is no other: what was under way when it opened may yet close it. */
  canStart(inFlight: number, nowMs: number): boolean {
    return nowMs >= this.earliestStartMs && (!this.isBreakerOpen || inFlight === 0);
  }

  attemptStarted(): void {
    this.#isProbing = this.isBreakerOpen;
  }

  /** One of so many a second started now. */
  applyRateLimit(ratePerSecond: number, nowMs: number): void {
    this.#rateLimitedUntilMs = nextStartAfter(this.#rateLimitedUntilMs, ratePerSecond, nowMs);
  }

  attemptEnded(): void {
    this.#isProbing = false;
  }
}
