/**
 * Watches whether a database responds, and suspends its pool while it does not: a request about one of its stores is refused at once,
 * instead of after a time-out, and a server that returns is not met by the requests of all processes.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { ping } from '#db/activity.ts';
import { DedicatedConnection } from '#db/dedicated-connection.ts';
import { resume, suspend, type Sql } from '#db/pool.ts';
import { isUnavailable } from '#db/unavailable.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Log } from '#core/log.ts';

const WATCH_MS = 1_000;
/** A server that is only busy responds within this time. */
const RESPONSE_MS = 3_000;

export class DatabaseWatch implements Running {
  readonly #deps: { id: number; sql: Sql; log: Log };
  readonly #connection: DedicatedConnection;
  readonly #stopping = new AbortController();
  #isSuspended = false;
  #watching: Promise<void> | undefined;

  constructor({ direct, ...deps }: { id: number; sql: Sql; direct: Sql; log: Log }) {
    this.#deps = deps;
    this.#connection = new DedicatedConnection(direct, RESPONSE_MS);
  }

  /** Starts to watch; may be called again. */
  start(): void {
    this.#watching ??= this.#watch();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#connection.stop();
    await this.#watching;
  }

  async #watch(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#check();
      await delay(WATCH_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #check(): Promise<void> {
    const { id, sql, log } = this.#deps;
    try {
      await this.#connection.query(ping);
      if (this.#isSuspended) log.warn({ database: id }, 'database responds again');
      this.#isSuspended = false;
      resume(sql);
    } catch (error) {
      if (this.#stopping.signal.aborted || !isUnavailable(error)) return;
      if (!this.#isSuspended)
        log.error({ database: id, reason: String(error) }, 'database does not respond; its requests are refused');
      this.#isSuspended = true;
      suspend(sql, String(error));
    }
  }
}
