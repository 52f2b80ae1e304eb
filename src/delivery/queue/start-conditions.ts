/**
 * Decides whether a lane may start an attempt now, from its pause, circuit breaker and rate limit. All times are
 * monotonic, in ms.
 */
import { NO_BACKOFF, type Backoff } from '../policy/backoff.ts';
import { CATCH_UP_MS, nextStartAfter } from '../policy/rate-limit.ts';

export class StartConditions {
  backoff: Backoff = NO_BACKOFF;
  #rateLimitedUntilMs = Number.NEGATIVE_INFINITY;
  #isProbing = false;

  /** The earliest start of the next attempt. */
  get earliestStartMs(): number {
    const { pausedUntilMs, breaker } = this.backoff;
    return Math.max(pausedUntilMs, breaker?.probeAtMs ?? pausedUntilMs, this.#rateLimitedUntilMs);
  }

  isPaused(nowMs: number): boolean {
    return this.backoff.pausedUntilMs > nowMs;
  }

  /** The circuit breaker is open, so the next attempt is a probe. */
  get isBreakerOpen(): boolean {
    return this.backoff.breaker !== null;
  }

  /**
   * Returns whether pause, breaker or rate limit delays the lane. A lane that starts at most `CATCH_UP_MS` late still
   * counts as rate-limited.
   */
  isBlocked(nowMs: number): boolean {
    return this.isBreakerOpen || this.isPaused(nowMs) || nowMs <= this.#rateLimitedUntilMs + CATCH_UP_MS;
  }

  /** The attempt in flight is a probe, and then the only one. */
  get isProbing(): boolean {
    return this.#isProbing;
  }

  /**
   * Returns whether an attempt may start. While the breaker is open, attempts run one at a time, because one that was
   * in flight when it opened may still close it.
   */
  canStart(inFlight: number, nowMs: number): boolean {
    return nowMs >= this.earliestStartMs && (!this.isBreakerOpen || inFlight === 0);
  }

  attemptStarted(): void {
    this.#isProbing = this.isBreakerOpen;
  }

  /** Counts a start against the rate limit. */
  applyRateLimit(ratePerSecond: number, nowMs: number): void {
    this.#rateLimitedUntilMs = nextStartAfter(this.#rateLimitedUntilMs, ratePerSecond, nowMs);
  }

  attemptEnded(): void {
    this.#isProbing = false;
  }
}
