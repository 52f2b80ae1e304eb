/**
 * Latency statistics of an endpoint. They outlive its lane, so that the endpoint is not classified as new again. Pure.
 */
import type { Outcome } from '../attempt/http/outcome.ts';
import { ConcurrencyLimit } from './concurrency-limit.ts';

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
