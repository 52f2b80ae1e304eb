/** Our own beat, and how long it is good for. */
import { Lifeline } from '#db/lifeline.ts';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { beat } from './leases-sql.ts';

export type LeaseSettings = { workerId: number; leaseMs: number; leaseMarginMs: number; beatMs: number };

export class Heartbeat {
  readonly #clock: Clock;
  readonly #settings: LeaseSettings;
  /** Its own, because nothing else may make a beat wait: ten long statements in the pool would end a live worker's lease. */
  readonly #line: Lifeline;
  /** Our own monotonic time from which the lease counts. */
  #confirmedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: { direct: Sql; clock: Clock; settings: LeaseSettings }) {
    const { leaseMs, leaseMarginMs } = deps.settings;
    this.#clock = deps.clock;
    this.#settings = deps.settings;
    // A beat that is answered later than this confirms nothing.
    this.#line = new Lifeline(deps.direct, leaseMs - leaseMarginMs);
  }

  /** Whether a beat was confirmed recently enough that no rival can have taken over. */
  isValid(): boolean {
    const { leaseMs, leaseMarginMs } = this.#settings;
    return this.#clock.monotonicMs() < this.#confirmedAtMs + leaseMs - leaseMarginMs;
  }

  /** Beats once; `onConfirmed` is called before the lease counts anew. Rejects where it was not confirmed. */
  async beat(onConfirmed: () => void): Promise<void> {
    // The lease counts from before the statement was sent: a rival saw the new counter no earlier than that.
    const requestedAtMs = this.#clock.monotonicMs();
    await this.#line.ask((sql) => beat(sql, this.#settings.workerId, this.#clock.now()));
    onConfirmed();
    this.#confirmedAtMs = requestedAtMs;
  }

  stop(): Promise<void> {
    return this.#line.stop();
  }
}
