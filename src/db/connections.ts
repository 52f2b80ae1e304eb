/**
 * The connections of a pool. `Pool` of the driver (pg-pool 3.14) leaves callers pending after its end, applies the connect time-out to
 * callers that wait for a busy pool, and cannot close connections that are in use.
 */
import { Connection, ConnectionError, PostgresError, type ConnectionSettings } from './connection.ts';
import { isDiskFull } from './unavailable.ts';

/**
 * `busy`: connections that run a statement or belong to a transaction. `waiting`: statements and transactions without a
 * connection. `refusedForSpace`: those that were refused because the disk is full.
 */
export type PoolUse = { connections: number; busy: number; waiting: number; refusedForSpace: number };

type Caller = { resolve: (connection: Connection) => void; reject: (error: unknown) => void };

/** A connection is replaced after 30 to 60 minutes: the memory of its process grows with its statements, and names move. */
const LIFETIME_MIN_MS = 30 * 60_000;

/** With as many connections a pool serves all callers: one for a transaction, and one for the statements beside it. */
const SERVING_MIN = 2;
/** The pause after the server refused a further connection. */
const RETRY_MS = 1_000;

export class Connections {
  readonly settings: ConnectionSettings;
  readonly #limit: number;
  /** Called when a connection was lost or is replaced, unless the pool ends. */
  readonly #onClosed: (() => void) | undefined;
  /** The open connections and the time, on the monotonic clock, after which they are replaced. */
  readonly #open = new Map<Connection, number>();
  /** The most recently used is the last. */
  readonly #idle: Connection[] = [];
  readonly #waiting: Caller[] = [];
  #opening = 0;
  #refusedForSpace = 0;
  /** Why no connection is given to callers, while the server is known not to respond. */
  #suspended: string | undefined;
  /** Runs while no further connection is tried. */
  #pause: NodeJS.Timeout | undefined;
  #isRefused = false;
  #ending: Promise<void> | undefined;
  readonly #abort = new AbortController();
  readonly #allClosed = Promise.withResolvers<void>();

  constructor(limit: number, settings: ConnectionSettings, onClosed?: () => void) {
    this.#limit = limit;
    this.settings = settings;
    this.#onClosed = onClosed;
  }

  get use(): PoolUse {
    return {
      connections: this.#limit,
      busy: this.#open.size - this.#idle.length,
      waiting: this.#waiting.length,
      refusedForSpace: this.#refusedForSpace,
    };
  }

  /** Calls `work` with a connection that nothing else uses until it ends. */
  async run<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const connection = await this.acquire();
    try {
      return await work(connection);
    } catch (error) {
      if (isDiskFull(error)) this.#refusedForSpace += 1;
      throw error;
    } finally {
      this.release(connection);
    }
  }

  /** Returns an idle connection, a new one, or the next that is released; rejects if none can be opened. */
  acquire(): Promise<Connection> | Connection {
    if (this.#ending !== undefined) throw new ConnectionError('CONNECTION_ENDED', 'the pool is closed');
    if (this.#suspended !== undefined) throw this.#refusal(this.#suspended);
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    const { promise, ...caller } = Promise.withResolvers<Connection>();
    this.#waiting.push(caller);
    this.#grow();
    return promise;
  }

  /** Rejects all callers until `resume`, those that wait as well. Statements that run continue. */
  suspend(reason: string): void {
    this.#suspended = reason;
    for (const { reject } of this.#waiting.splice(0)) reject(this.#refusal(reason));
    if (this.#ending !== undefined) this.#settle();
  }

  resume(): void {
    this.#suspended = undefined;
  }

  #refusal(reason: string): ConnectionError {
    return new ConnectionError('CONNECTION_SUSPENDED', `the database does not respond: ${reason}`);
  }

  /** Hands the connection to the next caller. */
  release(connection: Connection): void {
    const until = this.#open.get(connection);
    if (until === undefined) return;
    if (until < performance.now()) {
      this.#remove(connection);
      connection.close();
      return;
    }
    const caller = this.#waiting.shift();
    if (caller !== undefined) caller.resolve(connection);
    else if (this.#ending === undefined) this.#idle.push(connection);
    else connection.close();
  }

  /** Waits for all statements and closes the connections; after `timeoutMs` both end at once. */
  end(timeoutMs?: number): Promise<void> {
    this.#ending ??= this.#end(timeoutMs);
    return this.#ending;
  }

  async #end(timeoutMs: number | undefined): Promise<void> {
    for (const connection of this.#idle.splice(0)) connection.close();
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => this.#destroy(), timeoutMs);
    this.#settle();
    await this.#allClosed.promise;
    clearTimeout(timer);
  }

  #destroy(): void {
    const error = new ConnectionError('CONNECTION_DESTROYED', 'the pool was closed');
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    this.#abort.abort();
    for (const connection of this.#open.keys()) connection.destroy(error);
    this.#allClosed.resolve();
  }

  #settle(): void {
    if (this.#open.size + this.#opening + this.#waiting.length === 0) this.#allClosed.resolve();
  }

  #remove(connection: Connection): void {
    this.#open.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    this.#grow();
    if (this.#ending === undefined) this.#onClosed?.();
    else this.#settle();
  }

  /** Opens as many connections as callers wait for, up to the limit. */
  #grow(): void {
    if (this.#pause !== undefined && this.#open.size >= SERVING_MIN) return;
    while (this.#opening < this.#waiting.length && this.#open.size + this.#opening < this.#limit) {
      this.#opening += 1;
      void this.#openOne();
    }
  }

  /** Lets the callers wait for the open connections, because the server has no further one. */
  #waitForOthers(error: PostgresError): void {
    if (!this.#isRefused) this.settings.onRefused?.(error);
    this.#isRefused = true;
    this.#pause ??= setTimeout(() => {
      this.#pause = undefined;
      this.#grow();
    }, RETRY_MS).unref();
    if (this.#ending !== undefined) this.#settle();
  }

  async #openOne(): Promise<void> {
    try {
      const connection = await Connection.open(this.settings, this.#abort.signal);
      if (connection.isLost) throw new ConnectionError('CONNECTION_CLOSED', 'the connection was closed');
      this.#opening -= 1;
      connection.onLost = () => this.#remove(connection);
      this.#open.set(connection, performance.now() + LIFETIME_MIN_MS * (1 + Math.random()));
      if (this.#open.size === this.#limit) this.#isRefused = false;
      this.release(connection);
    } catch (error) {
      this.#opening -= 1;
      if (error instanceof PostgresError && this.#open.size >= SERVING_MIN) return this.#waitForOthers(error);
      // Without any connection, the other callers would wait for the same error one after the other.
      const callers = this.#open.size === 0 ? this.#waiting.length : 1;
      for (const { reject } of this.#waiting.splice(0, callers)) reject(error);
      this.#grow();
      if (this.#ending !== undefined) this.#settle();
    }
  }
}
