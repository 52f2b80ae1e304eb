/**
 * The time of the home database, by which a process decides all dates: what is issued, what has expired and what is deleted. The clock of
 * this machine may be wrong by days, and would delete what is valid for all others.
 */
import { Gauge, type Registry } from '@prometheus-io/client';
import type { Clock } from '#core/clock.ts';
import type { Check, Running, Pace } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';
import { oneOf, type Queryable, type Sql } from './pool.ts';

/** Between two readings the monotonic clock counts; it drifts by a millisecond in this time. */
const READ_EVERY_MS = 10_000;
/** The wall clock was set by more, or the machine was suspended: the database is asked at once. */
const STEP_MS = 1_000;
const REPORTED_MS = 60_000;
/** Receivers reject signatures of a process with this error, and certificates appear expired. */
const UNREADY_MS = 5 * 60_000;

export async function readDatabaseTime(sql: Queryable): Promise<Date> {
  return (await oneOf(sql<{ at: Date }[]>`select clock_timestamp() as at`)).at;
}

/** `local`: the clock of this machine. */
type Deps = { sql: Sql; local: Clock; pace: Pace; log: Log };

export class DatabaseClock implements Clock, Running {
  readonly #deps: Deps;
  /** The database's time, and the wall clock of this machine, minus the monotonic clock. */
  #offsetMs = NaN;
  #wallMs = 0;
  #reading: Promise<void> | undefined;
  #isReported = false;
  readonly #stopping = new AbortController();

  private constructor(deps: Deps) {
    this.#deps = deps;
  }

  /** Reads the database's time, then every ten seconds until `stop`. Rejects if the first reading fails. */
  static async follow(deps: Deps): Promise<DatabaseClock> {
    const clock = new DatabaseClock(deps);
    await clock.#read();
    void deps.pace.repeat(READ_EVERY_MS, () => clock.#refresh(), clock.#stopping.signal);
    return clock;
  }

  readonly monotonicMs = (): number => this.#deps.local.monotonicMs();

  readonly now = (): Date => {
    if (Math.abs(this.#sinceMonotonic() - this.#wallMs) > STEP_MS) this.#refresh();
    return new Date(this.monotonicMs() + this.#offsetMs);
  };

  /** How far the clock of this machine is ahead of the database's, in ms. */
  get aheadMs(): number {
    return this.#sinceMonotonic() - this.#offsetMs;
  }

  /** Registers the error of this machine's clock. */
  observe(registry: Registry): void {
    const read = (): number => this.aheadMs / 1_000;
    registry.registerMetric(
      new Gauge({
        name: 'halcyon_clock_ahead_seconds',
        help: 'How far the clock of this machine is ahead of the clock of the home database',
        registers: [],
        collect() {
          this.set(read());
        },
      }),
    );
  }

  readonly check: Check = () => (Math.abs(this.aheadMs) > UNREADY_MS ? 'clock' : undefined);

  /** Resolves when no reading is under way. */
  async settled(): Promise<void> {
    await this.#reading;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.settled();
  }

  #sinceMonotonic(): number {
    return this.#deps.local.now().getTime() - this.monotonicMs();
  }

  /** A failed reading is repeated by the timer, not by each look at the clock; that the database does not respond is reported elsewhere. */
  #refresh(): void {
    this.#reading ??= this.#read()
      .catch(() => void (this.#wallMs = this.#sinceMonotonic()))
      .finally(() => (this.#reading = undefined));
  }

  /** The database read its clock between the request and the response. An offset that agrees with this is kept, so that the time does not jitter. */
  async #read(): Promise<void> {
    const beforeMs = this.monotonicMs();
    const databaseMs = (await readDatabaseTime(this.#deps.sql)).getTime();
    const afterMs = this.monotonicMs();
    const [least, most] = [databaseMs - afterMs, databaseMs - beforeMs];
    if (!(this.#offsetMs >= least && this.#offsetMs <= most)) this.#offsetMs = (least + most) / 2;
    this.#wallMs = this.#sinceMonotonic();
    this.#report();
  }

  #report(): void {
    const isWrong = Math.abs(this.aheadMs) > REPORTED_MS;
    if (isWrong === this.#isReported) return;
    this.#isReported = isWrong;
    const aheadSeconds = Math.round(this.aheadMs / 1_000);
    if (isWrong)
      this.#deps.log.error(
        { aheadSeconds },
        'the clock of this machine differs from that of the database, whose time is used: synchronise both by NTP',
      );
    else this.#deps.log.info({ aheadSeconds }, 'the clock of this machine agrees with that of the database again');
  }
}
