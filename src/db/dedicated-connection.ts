/** A dedicated connection for statements that must not wait for a pool: a worker whose heartbeat is late loses its shards. */
import { openSeparatePool, type Sql } from './pool.ts';

/** The server did not answer in time; it may execute the statement all the same. */
class ResponseTimeoutError extends Error {
  /** The code of a connection that the kernel gave up, so that `isUnavailable` returns true. */
  readonly code = 'ETIMEDOUT';
}

/**
 * One connection to the server of `sql`, outside its pool. A connection without a response for `limitMs` is closed and the next
 * statement opens another: the kernel takes a quarter of an hour to give up a peer that vanished.
 */
export class DedicatedConnection {
  readonly #sql: Sql;
  readonly #limitMs: number;
  readonly #onClosed: (() => void) | undefined;
  #connection: Sql | undefined;

  /** `onClosed` is called when the connection has closed, except by `stop` and after a missing response. */
  constructor(sql: Sql, limitMs: number, onClosed?: () => void) {
    this.#sql = sql;
    this.#limitMs = limitMs;
    this.#onClosed = onClosed;
  }

  /** Runs `execute` on the connection; rejects with an error that `isUnavailable` recognizes if there is no response in time. */
  async query<T>(execute: (sql: Sql) => Promise<T>): Promise<T> {
    const connection = (this.#connection ??= openSeparatePool(this.#sql, 1, this.#onClosed));
    const { promise: timeout, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => reject(new ResponseTimeoutError(`no response within ${this.#limitMs} ms`)),
      this.#limitMs,
    );
    try {
      return await Promise.race([execute(connection), timeout]);
    } catch (error) {
      if (error instanceof ResponseTimeoutError) await this.stop();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes the connection at once; the next statement opens it again. */
  async stop(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    await connection?.end({ timeout: 0 });
  }
}
