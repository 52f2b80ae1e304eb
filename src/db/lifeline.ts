/** A connection for what must not wait for anybody else's statements: a heartbeat behind a busy pool is a dead worker. */
import { openBeside, type Sql } from './pool.ts';

/** The server did not answer in time. It may carry the statement out all the same. */
class Silent extends Error {
  /** `isUnavailable` knows it by the code that a connection has which the kernel gave up. */
  readonly code = 'ETIMEDOUT';
}

/**
 * One connection to where `sql` goes, apart from its pool. One that stays silent for `limitMs` is thrown away and the next
 * question opens another: the kernel takes a quarter of an hour to give up a peer that vanished without a word.
 */
export class Lifeline {
  readonly #sql: Sql;
  readonly #limitMs: number;
  #line: Sql | undefined;

  constructor(sql: Sql, limitMs: number) {
    this.#sql = sql;
    this.#limitMs = limitMs;
  }

  /** Rejects with what `isUnavailable` says yes to when the answer is not there in time. */
  async ask<T>(question: (sql: Sql) => Promise<T>): Promise<T> {
    const line = (this.#line ??= openBeside(this.#sql, 1));
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const timer = setTimeout(() => reject(new Silent(`no answer in ${this.#limitMs} ms`)), this.#limitMs);
    try {
      return await Promise.race([question(line), silence]);
    } catch (error) {
      if (error instanceof Silent) await this.stop();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Closes the connection at once; a question opens it again. */
  async stop(): Promise<void> {
    const line = this.#line;
    this.#line = undefined;
    await line?.end({ timeout: 0 });
  }
}
