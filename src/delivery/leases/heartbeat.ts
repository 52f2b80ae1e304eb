/** The heartbeat of this worker and the validity of its lease. */
import { DedicatedConnection } from '#db/dedicated-connection.ts';
import type { Sql } from '#db/pool.ts';
import type { Clock } from '#core/clock.ts';
import { beat } from './leases-sql.ts';

export type LeaseSettings = { workerId: number; leaseMs: number; leaseMarginMs: number; beatMs: number };

export class Heartbeat {
  readonly #clock: Clock;
  readonly #settings: LeaseSettings;
  /**
   * A connection of its own: ten long statements in the shared pool would delay the heartbeat and end a live worker's
   * lease.
   */
  readonly #connection: DedicatedConnection;
  /** Monotonic time from which the lease counts. */
  #confirmedAtMs = Number.NEGATIVE_INFINITY;

  /** `onDisconnected` is called when the session of the heartbeats has ended. */
  constructor(deps: { direct: Sql; clock: Clock; settings: LeaseSettings }, onDisconnected: () => void) {
    const { leaseMs, leaseMarginMs } = deps.settings;
    this.#clock = deps.clock;
    this.#settings = deps.settings;
    // A heartbeat that is answered later than this confirms nothing.
    this.#connection = new DedicatedConnection(deps.direct, leaseMs - leaseMarginMs, onDisconnected);
  }

  /** Returns whether a heartbeat was confirmed recently enough that no other worker can have taken over. */
  isValid(): boolean {
    const { leaseMs, leaseMarginMs } = this.#settings;
    return this.#clock.monotonicMs() < this.#confirmedAtMs + leaseMs - leaseMarginMs;
  }

  /**
   * Sends one heartbeat; calls `onConfirmed` before the lease is extended. Rejects if the heartbeat was not confirmed.
   */
  async beat(onConfirmed: () => void): Promise<void> {
    // The lease counts from before the statement was sent: no other worker saw the new counter earlier.
    const requestedAtMs = this.#clock.monotonicMs();
    await this.#connection.query((sql) => beat(sql, this.#settings.workerId, this.#clock.now()));
    onConfirmed();
    this.#confirmedAtMs = requestedAtMs;
  }

  stop(): Promise<void> {
    return this.#connection.stop();
  }
}
