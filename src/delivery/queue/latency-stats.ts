/** What is known of how fast an endpoint answers: outlives its lane, so that nobody has to prove himself twice. Pure. */
import type { Outcome } from '../attempt/http/outcome.ts';
import { ConcurrencyLimit } from './concurrency-limit.ts';

/**
 * `slow`: its last exchange was, or one under way is, or it fails and nothing good is known of it. `proven`: it answered fast
 * before, with whatever status, or an owner before us noted that it answered. `unproven`: nothing is known.
 */
export type Speed = 'fast' | 'new' | 'slow';

/** An exchange is late before it is slow where the endpoint mostly takes an eighth of that time or less. */
const BUDGET_FACTOR = 8;
/** A pause of our own or of the endpoint's (a collection of garbage, a repeated packet) is not late. */
const BUDGET_MIN_MS = 150;

export class LatencyStats {
  readonly concurrency: ConcurrencyLimit;
  readonly #slowMaxInFlight: number;
  /** Exchanges under way that take longer than they should. */
  #overBudget = 0;
  #wasSlow = false;
  #wasFast = false;

  constructor(limits: { slotsPerLane: number; slotsPerSlowLane: number }) {
    this.concurrency = new ConcurrencyLimit(limits.slotsPerLane);
    this.#slowMaxInFlight = limits.slotsPerSlowLane;
  }

  /** Something is known that a new one would have to learn. */
  get hasData(): boolean {
    return this.#wasFast || this.#wasSlow;
  }

  /** `recorded`: by what is written down of it, which counts until an exchange of our own has told more. */
  speed(recorded: Speed): Speed {
    if (this.#overBudget > 0 || this.#wasSlow) return 'slow';
    return this.#wasFast ? 'fast' : recorded;
  }

  /** How many exchanges it may have at once. */
  get maxInFlight(): number {
    return this.#overBudget > 0 || this.#wasSlow
      ? Math.min(this.concurrency.limit, this.#slowMaxInFlight)
      : this.concurrency.limit;
  }

  /** After how many ms an exchange no longer counts as quick; `slowAfterMs` at most. */
  timeBudgetMs(slowAfterMs: number): number {
    if (!this.#wasFast) return slowAfterMs;
    return Math.min(slowAfterMs, Math.max(BUDGET_MIN_MS, this.concurrency.bestMs * BUDGET_FACTOR));
  }

  attemptBecameSlow(): void {
    this.#overBudget += 1;
  }

  /** An exchange is over, however it ended. */
  attemptEnded(wasOverBudget: boolean): void {
    if (wasOverBudget) this.#overBudget -= 1;
  }

  /** What an outcome tells of the endpoint; the cap says what of an exchange it goes by. */
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
