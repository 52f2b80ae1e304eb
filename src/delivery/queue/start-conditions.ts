/** Whether a lane may start an exchange now: pause, breaker and pace in one. All times are monotonic, in ms. */
import { FREE, type Hold } from '../policy/backoff.ts';
import { CATCH_UP_MS, paceAfter } from '../policy/pace.ts';

export class Gate {
  hold: Hold = FREE;
  #paceAtMs = Number.NEGATIVE_INFINITY;
  #isProbing = false;

  /** From when on the next exchange may start, as far as the gate is asked. */
  get opensAtMs(): number {
    const { pausedUntilMs, breaker } = this.hold;
    return Math.max(pausedUntilMs, breaker?.probeAtMs ?? pausedUntilMs, this.#paceAtMs);
  }

  isPaused(nowMs: number): boolean {
    return this.hold.pausedUntilMs > nowMs;
  }

  /** Its breaker is open: what it starts is a probe. */
  get isOpen(): boolean {
    return this.hold.breaker !== null;
  }

  /** Its endpoint keeps the lane waiting. While a late start can be made up for, the pace is kept, and nobody else does. */
  holdsBack(nowMs: number): boolean {
    return this.isOpen || this.isPaused(nowMs) || nowMs <= this.#paceAtMs + CATCH_UP_MS;
  }

  /** The exchange under way is a probe. It is the only one then. */
  get isProbing(): boolean {
    return this.#isProbing;
  }

  /** While the breaker is open an exchange starts when there is no other: what was under way when it opened may yet close it. */
  admits(inFlight: number, nowMs: number): boolean {
    return nowMs >= this.opensAtMs && (!this.isOpen || inFlight === 0);
  }

  started(): void {
    this.#isProbing = this.isOpen;
  }

  /** One of so many a second started now. */
  paced(ratePerSecond: number, nowMs: number): void {
    this.#paceAtMs = paceAfter(this.#paceAtMs, ratePerSecond, nowMs);
  }

  ended(): void {
    this.#isProbing = false;
  }
}
