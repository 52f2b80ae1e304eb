/**
 * What limits the attempts of one lane: latency statistics, the concurrency limit, and the conditions for the next start (pause, circuit
 * breaker, rate limit). Pure; all times are monotonic, in ms.
 *
 * The concurrency limit adapts to the lane's rate and latency. By Little's law, concurrency helps as long as responses are no slower than
 * alone. The limit grows when it held deliveries back and the response was about as fast as the best known one; it shrinks when
 * concurrency only made responses slower. Growing on every fast success brought each of 500 lanes to 32 in a burst: 13,000 sockets
 * instead of 500. Growing while our own event loop lagged opened 3,500 connections in a round of 30,000 deliveries and cost a worker
 * 9 % of its time. The statistics outlive the lane, so that its endpoint is not classified as new again.
 */
import type { Outcome } from '../attempt/http/attempt-outcome.ts';
import { CATCH_UP_MS, NO_BACKOFF, nextStartAfter, type Backoff } from '../policy/policy.ts';

/**
 * `slow`: the last attempt was slow, one in flight exceeds its time budget, or stored health has failures and no
 * attempt was fast. `fast`: an attempt was answered fast, with any status, or stored health has a success. `new`:
 * nothing is known.
 */
export type Speed = 'fast' | 'new' | 'slow';

/** The time budget of an attempt is this multiple of the best response time. */
const BUDGET_FACTOR = 8;
/** Minimum time budget: a garbage collection or a retransmitted packet must not exceed it. */
const BUDGET_MIN_MS = 150;

export class LatencyStats {
  readonly concurrency: ConcurrencyLimit;
  readonly #slowMaxInFlight: number;
  /** Attempts in flight that exceed their time budget. */
  #overBudget = 0;
  #wasSlow = false;
  #wasFast = false;

  constructor(limits: { slotsPerLane: number; slotsPerSlowLane: number }) {
    this.concurrency = new ConcurrencyLimit(limits.slotsPerLane);
    this.#slowMaxInFlight = limits.slotsPerSlowLane;
  }

  /** There are measurements worth keeping. */
  get hasData(): boolean {
    return this.#wasFast || this.#wasSlow;
  }

  /** Returns the speed class. `recorded` is the class from stored health; it counts until an attempt was measured. */
  speed(recorded: Speed): Speed {
    if (this.#overBudget > 0 || this.#wasSlow) return 'slow';
    return this.#wasFast ? 'fast' : recorded;
  }

  /** The number of attempts allowed in flight at once. */
  get maxInFlight(): number {
    return this.#overBudget > 0 || this.#wasSlow
      ? Math.min(this.concurrency.limit, this.#slowMaxInFlight)
      : this.concurrency.limit;
  }

  /** Returns the time budget of an attempt in ms, at most `slowAfterMs`; exceeding it makes the attempt slow. */
  timeBudgetMs(slowAfterMs: number): number {
    if (!this.#wasFast) return slowAfterMs;
    return Math.min(slowAfterMs, Math.max(BUDGET_MIN_MS, this.concurrency.bestMs * BUDGET_FACTOR));
  }

  attemptBecameSlow(): void {
    this.#overBudget += 1;
  }

  /** Ends an attempt, whatever its outcome. */
  attemptEnded(wasOverBudget: boolean): void {
    if (wasOverBudget) this.#overBudget -= 1;
  }

  /** Records the outcome of an attempt. */
  record(outcome: Outcome, exchange: Parameters<ConcurrencyLimit['recordSuccess']>[0] & { isSlow: boolean }): void {
    if (outcome.kind === 'timed_out') {
      this.#wasSlow = true;
      this.concurrency.recordTimeout();
    } else if (outcome.reply !== null) {
      this.#wasSlow = exchange.isSlow;
      if (!exchange.isSlow) this.#wasFast = true;
      if (outcome.kind === 'delivered') this.concurrency.recordSuccess(exchange);
    } else if (exchange.isSlow) this.#wasSlow = true;
  }
}

/** A response slower than the best by more than this factor is slower because of the concurrent attempts. */
const TOLERATED_SLOWDOWN = 1.5;
/** From this factor on, the limit is reduced. */
const EXCESSIVE_SLOWDOWN = 4;
/** Shorter durations say more about our own event loop than about the endpoint. */
const NOISE_MS = 5;
/**
 * Share by which a slower response, measured alone, raises the best time, so that an endpoint that became slower is not
 * treated as overloaded for ever.
 */
const BEST_TIME_DRIFT = 1 / 8;
/**
 * After this many rejected increases the limit starts at 1 again: only a single attempt shows the current speed of the
 * endpoint.
 */
const RESET_AFTER_REJECTIONS = 32;

type Success = { durationMs: number; inFlight: number; hasMoreToSend: boolean; loopIsLagging: boolean };

export class ConcurrencyLimit {
  readonly #max: number;
  #limit = 1;
  #bestMs = Number.POSITIVE_INFINITY;
  #rejections = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** The number of attempts allowed at once, from 1 to `max`. */
  get limit(): number {
    return this.#limit;
  }

  /** The fastest response, in ms; infinite before the first. */
  get bestMs(): number {
    return this.#bestMs;
  }

  /**
   * Records a success that took `durationMs` and started with `inFlight` attempts in flight, itself included.
   * `hasMoreToSend`: the lane has queued deliveries. `loopIsLagging`: our own event loop accounts for the duration.
   */
  recordSuccess({ durationMs, inFlight, hasMoreToSend, loopIsLagging }: Success): void {
    if (durationMs < this.#bestMs) this.#bestMs = durationMs;
    else if (inFlight === 1 && !loopIsLagging) this.#bestMs += (durationMs - this.#bestMs) * BEST_TIME_DRIFT;
    if (inFlight < this.#limit) return;
    const slowdown = durationMs / Math.max(this.#bestMs, NOISE_MS);
    // Adding 0.5 lets low limits grow sooner: with one attempt at a time there is the least to lose and the most to
    // gain.
    const isUseful = (TOLERATED_SLOWDOWN * inFlight) / slowdown + 0.5 > this.#limit;
    if (isUseful && (!hasMoreToSend || loopIsLagging)) return;
    if (isUseful) this.#set(Math.min(this.#limit + 1, this.#max));
    else if (slowdown > EXCESSIVE_SLOWDOWN) this.#set(Math.max(1, this.#limit - 1));
    else if (this.#rejections >= RESET_AFTER_REJECTIONS) this.#set(1);
    else this.#rejections += 1;
  }

  recordTimeout(): void {
    this.#set(1);
  }

  #set(limit: number): void {
    this.#limit = limit;
    this.#rejections = 0;
  }
}

export class StartConditions {
  backoff: Backoff = NO_BACKOFF;
  #rateLimitedUntilMs = Number.NEGATIVE_INFINITY;

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

  /** Returns whether the rate limit delays the lane. One that starts at most `CATCH_UP_MS` late still counts as rate-limited. */
  isRateLimited(nowMs: number): boolean {
    return nowMs <= this.#rateLimitedUntilMs + CATCH_UP_MS;
  }

  /**
   * Returns whether an attempt may start. While the breaker is open, attempts run one at a time, because one that was
   * in flight when it opened may still close it.
   */
  canStart(inFlight: number, nowMs: number): boolean {
    return nowMs >= this.earliestStartMs && (!this.isBreakerOpen || inFlight === 0);
  }

  /** Ends the pause, and makes a probe due, because an attempt was requested. Its success closes the breaker. */
  attemptNow(nowMs: number): void {
    const { pausedUntilMs, breaker } = this.backoff;
    this.backoff = {
      pausedUntilMs: Math.min(pausedUntilMs, nowMs),
      breaker: breaker && { ...breaker, probeAtMs: Math.min(breaker.probeAtMs, nowMs) },
    };
  }

  /** Counts a start against the rate limit. */
  applyRateLimit(ratePerSecond: number, nowMs: number): void {
    this.#rateLimitedUntilMs = nextStartAfter(this.#rateLimitedUntilMs, ratePerSecond, nowMs);
  }
}
