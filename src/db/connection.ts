/** Connections to PostgreSQL, one by one and in a pool. */
import { connect, Socket } from 'node:net';
import { Client, DatabaseError as PostgresError, type ClientConfig, type QueryResult } from 'pg';
import type { Servers } from './servers.ts';
import { decoderOf, type Command, type Rows } from './statement.ts';
import { isUnavailable, isDiskFull } from './unavailable.ts';

// One connection: statements and their errors, silence, and its loss.

const KEEP_ALIVE_MS = 60_000;

/** PostgreSQL rejected a statement; `code` is the SQLSTATE. */
export { PostgresError };

/** Under this name, the log omits the values that the error quotes. */
const NAME = 'PostgresError';

/** Gives an error of the driver its name, and the stack of its statement. */
function named(error: PostgresError, origin: Command['origin']): Error {
  if (origin !== undefined) error.stack = `${NAME}: ${error.message}${origin.stack.replace(/^.*/, '')}`;
  return Object.assign(error, { name: NAME });
}

/** The connection was lost or could not be opened; `isUnavailable` returns true for it. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

/**
 * Routines of the server: the schema changed since the statement was prepared, or the session has lost its prepared statements.
 * Nothing was executed.
 */
const STALE: ReadonlySet<string | undefined> = new Set(['RevalidateCachedQuery', 'FetchPreparedStatement']);
const FATAL: ReadonlySet<string | undefined> = new Set(['FATAL', 'PANIC']);

/** Returns whether the statement can be repeated, on a connection that has not prepared it. */
export function isStale(error: unknown): boolean {
  return error instanceof PostgresError && STALE.has(error.routine);
}

/**
 * `connectMs`: how long a server may take to accept a connection. `setUp`: a statement that each new connection executes. `isShared`: a
 * pooler assigns a session per transaction, so statements are not prepared. `silenceMs`: a connection without a response for this long
 * while a statement waits is lost. `onRefused`: called when the server refuses further connections to a pool that works with those that are
 * open.
 */
export type ConnectionSettings = Servers & {
  session: Pick<ClientConfig, 'application_name' | 'options'>;
  connectMs: number;
  setUp: string | undefined;
  isShared: boolean;
  silenceMs: number | undefined;
  onQuery: ((statement: string) => void) | undefined;
  onRefused: ((error: Error) => void) | undefined;
};

/** The key of a session, which the driver does not declare. */
type Cancellable = { processID: number; secretKey: number };

/** A CancelRequest is its own connection (PostgreSQL, "Canceling Requests in Progress"). */
const CANCEL_REQUEST_CODE = 80_877_102;

function cancel(client: Client, limitMs: number): void {
  const { processID, secretKey } = client as Client & Cancellable;
  const message = Buffer.alloc(16);
  for (const [at, word] of [16, CANCEL_REQUEST_CODE, processID, secretKey].entries())
    message.writeInt32BE(word, 4 * at);
  const { host, port } = client;
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.setTimeout(limitMs, () => socket.destroy());
  // The server that does not respond may not be there.
  socket.on('error', () => {});
  socket.end(message);
}

/** Returns the rows of the last result: a text may contain several statements. */
function rowsOf(result: QueryResult | QueryResult[]): Rows<readonly unknown[]> {
  const last = Array.isArray(result) ? result.at(-1) : result;
  return Object.assign(last?.rows ?? [], { count: last?.rowCount ?? 0 });
}

export class Connection {
  readonly client: Client;
  /** Called once, when the connection is lost. */
  onLost: (error: Error) => void = () => {};
  readonly #socket = new Socket();
  readonly #settings: ConnectionSettings;
  #fault: Error | undefined;
  /** Statements without a response. */
  #running = 0;

  private constructor(server: ClientConfig, settings: ConnectionSettings) {
    this.#settings = settings;
    this.client = new Client({
      ...server,
      ...settings.session,
      stream: () => this.#socket,
      types: { getTypeParser: decoderOf as never },
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      // The statements of a transaction may be sent without waiting for each other.
      pipeline: true,
    });
    this.client.on('error', (error) => this.#lose(error));
    this.client.on('end', () => this.#lose(new ConnectionError('CONNECTION_CLOSED', 'the connection was closed')));
    if (settings.silenceMs === undefined) return;
    // The kernel takes a quarter of an hour to give up a peer that vanished.
    this.#socket.setTimeout(settings.silenceMs).on('timeout', () => {
      if (this.#running === 0) return;
      // A slow statement must not run beside its repetition.
      cancel(this.client, settings.connectMs);
      this.destroy(new ConnectionError('CONNECTION_CLOSED', `no response within ${settings.silenceMs} ms`));
    });
  }

  /** Connects to the first server that is available, and that accepts writes if it has to. */
  static async open(settings: ConnectionSettings, signal?: AbortSignal): Promise<Connection> {
    let failure: unknown;
    for (const server of settings.servers) {
      const connection = new Connection(server, settings);
      try {
        await connection.#connect(signal);
        return connection;
      } catch (error) {
        // The first error is the one that an operator recognizes.
        failure ??= error;
        if (signal?.aborted === true || !isUnavailable(error)) break;
      }
    }
    throw failure;
  }

  get isLost(): boolean {
    return this.#fault !== undefined;
  }

  /** Returns whether no statement waits for a response. */
  get isIdle(): boolean {
    return this.#running === 0;
  }

  /** Executes a statement, after those before it. */
  query({ text, values, name, origin }: Pick<Command, 'text'> & Partial<Command>): Promise<Rows<readonly unknown[]>> {
    if (this.#fault !== undefined) return Promise.reject(this.#errorOf(this.#fault));
    this.#settings.onQuery?.(text);
    this.#running += 1;
    return new Promise((resolve, reject) => {
      const query =
        values === undefined ? { text } : { text, values, name: this.#settings.isShared ? undefined : name };
      this.client.query(query, (error: Error | null, result) => {
        this.#running -= 1;
        if (error) reject(this.#errorOf(error, origin));
        else resolve(rowsOf(result));
      });
    });
  }

  /** Sends all statements that `work` executes in one write. */
  together<T>(work: () => T): T {
    this.#socket.cork();
    try {
      return work();
    } finally {
      this.#socket.uncork();
    }
  }

  /** Closes the connection after its statements. */
  close(): void {
    void this.client.end();
  }

  /** Closes the connection at once; its statements are rejected with the error. */
  destroy(error: Error): void {
    this.#socket.destroy(error);
    this.#lose(error);
  }

  async #connect(signal: AbortSignal | undefined): Promise<void> {
    const { setUp, mustWrite, connectMs } = this.#settings;
    const giveUp = (code: string, message: string) => () => this.destroy(new ConnectionError(code, message));
    using _timer = setTimeout(giveUp('CONNECT_TIMEOUT', `no connection within ${connectMs / 1_000} s`), connectMs);
    const onAbort = giveUp('CONNECTION_DESTROYED', 'the pool was closed');
    signal?.addEventListener('abort', onAbort);
    try {
      await this.client.connect();
      if (setUp !== undefined) await this.query({ text: setUp });
      if (mustWrite) await this.#requireWritable();
    } catch (error) {
      this.destroy(error as Error);
      throw this.#errorOf(error as Error);
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }

  async #requireWritable(): Promise<void> {
    const [row] = await this.query({ text: `select current_setting('transaction_read_only') as "readOnly"` });
    if ((row as { readOnly: string }).readOnly === 'on')
      throw new ConnectionError('25006', 'no server accepts writes: all that respond are standbys');
  }

  #lose(error: Error): void {
    if (this.#fault !== undefined) return;
    this.#fault = error;
    this.onLost(this.#errorOf(error));
  }

  /** Returns an error that the callers know: those of the driver for a lost connection have no code. */
  #errorOf(error: Error, origin?: Command['origin']): Error {
    if (error instanceof PostgresError) {
      // An error that ends the connection is that of all its statements, of which the first has caused it.
      const known = (error.name as string) === NAME ? error : named(error, origin);
      if (FATAL.has(error.severity) || isStale(error)) this.destroy(known);
      return known;
    }
    if (this.#fault === undefined || (error as NodeJS.ErrnoException).code !== undefined) return error;
    // SQLSTATE invalid_password: the driver checks the challenge of the server by itself.
    if (error.message.startsWith('SASL')) return new ConnectionError('28P01', error.message, error);
    return new ConnectionError('CONNECTION_CLOSED', error.message, error);
  }
}

// The connections of a pool. `Pool` of the driver (pg-pool 3.14) leaves callers pending after its end, applies the connect time-out to
// callers that wait for a busy pool, and cannot close connections that are in use.

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
    using _timer = timeoutMs === undefined ? undefined : setTimeout(() => this.#destroy(), timeoutMs);
    this.#settle();
    await this.#allClosed.promise;
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
