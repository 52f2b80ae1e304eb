/** What is known of how fast an endpoint answers: outlives its lane, so that nobody has to prove himself twice. Pure. */
import type { Outcome } from '../attempt/http/outcome.ts';
import { Cap } from './concurrency-limit.ts';

/**
 * `slow`: its last exchange was, or one under way is, or it fails and nothing good is known of it. `proven`: it answered fast
 * before, with whatever status, or an owner before us noted that it answered. `unproven`: nothing is known.
 */
export type Speed = 'proven' | 'unproven' | 'slow';

/** An exchange is late before it is slow where the endpoint mostly takes an eighth of that time or less. */
const LATE = 8;
/** A pause of our own or of the endpoint's (a collection of garbage, a repeated packet) is not late. */
const LATE_MIN_MS = 150;

export class Tempo {
  readonly cap: Cap;
  readonly #slowCap: number;
  /** Exchanges under way that take longer than they should. */
  #late = 0;
  #wasSlow = false;
  #isProven = false;

  constructor(limits: { slotsPerLane: number; slotsPerSlowLane: number }) {
    this.cap = new Cap(limits.slotsPerLane);
    this.#slowCap = limits.slotsPerSlowLane;
  }

  /** Something is known that a new one would have to learn. */
  get isKnown(): boolean {
    return this.#isProven || this.#wasSlow;
  }

  /** `recorded`: by what is written down of it, which counts until an exchange of our own has told more. */
  speed(recorded: Speed): Speed {
    if (this.#late > 0 || this.#wasSlow) return 'slow';
    return this.#isProven ? 'proven' : recorded;
  }

  /** How many exchanges it may have at once. */
  get atOnce(): number {
    return this.#late > 0 || this.#wasSlow ? Math.min(this.cap.limit, this.#slowCap) : this.cap.limit;
  }

  /** After how many ms an exchange no longer counts as quick; `slowAfterMs` at most. */
  lateAfterMs(slowAfterMs: number): number {
    if (!this.#isProven) return slowAfterMs;
    return Math.min(slowAfterMs, Math.max(LATE_MIN_MS, this.cap.bestMs * LATE));
  }

  turnedLate(): void {
    this.#late += 1;
  }

  /** An exchange is over, however it ended. */
  ended(wasLate: boolean): void {
    if (wasLate) this.#late -= 1;
  }

  /** What an outcome tells of the endpoint; the cap says what of an exchange it goes by. */
  learn(outcome: Outcome, exchange: Parameters<Cap['succeeded']>[0] & { isSlow: boolean }): void {
    if (outcome.kind === 'timed_out') {
      this.#wasSlow = true;
      this.cap.timedOut();
    } else if (outcome.reply !== null) {
      this.#wasSlow = exchange.isSlow;
      if (!exchange.isSlow) this.#isProven = true;
      if (outcome.kind === 'delivered') this.cap.succeeded(exchange);
    } else if (exchange.isSlow) this.#wasSlow = true;
  }
}
