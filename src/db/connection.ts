/** One connection to PostgreSQL: statements and their errors, silence, and its loss. */
import { connect, Socket } from 'node:net';
import { Client, DatabaseError as PostgresError, type ClientConfig, type QueryResult } from 'pg';
import type { Servers } from './servers.ts';
import { decoderOf, type Command, type Rows } from './statement.ts';
import { isUnavailable } from './unavailable.ts';

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
    const timer = setTimeout(giveUp('CONNECT_TIMEOUT', `no connection within ${connectMs / 1_000} s`), connectMs);
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
      clearTimeout(timer);
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
