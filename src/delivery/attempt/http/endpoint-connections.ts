/** Connections to endpoints: open, idle for reuse, and closed by age. */
import type { Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import { type Dialer, createDialer, type DialSettings, type Opening } from './dial.ts';
import { intakeOf, type Intake } from './response.ts';
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import type { Runtime } from '#runtime/runtime.ts';

/**
 * Idle connections for reuse, by origin, with one limit for all. Evicts the one that was idle for longest. With a limit per
 * origin only, 500 endpoints with a backlog left 13,000 sockets open.
 */
export class IdleConnections {
  /** The lists are stacks: connections that a quiet origin no longer needs age at the bottom. */
  readonly #byOrigin = new Map<string, Connection[]>();
  /** In the order in which they became idle. An LRU cache took 0.7 µs per exchange, this takes 0.1. */
  readonly #all = new Set<Connection>();
  readonly #limit: number;
  readonly #onEvicted: (connection: Connection) => void;

  constructor(limit: number, onEvicted: (connection: Connection) => void) {
    this.#limit = limit;
    this.#onEvicted = onEvicted;
  }

  get size(): number {
    return this.#all.size;
  }

  has(connection: Connection): boolean {
    return this.#all.has(connection);
  }

  add(connection: Connection): void {
    const others = this.#byOrigin.get(connection.origin);
    if (others === undefined) this.#byOrigin.set(connection.origin, [connection]);
    else others.push(connection);
    this.#all.add(connection);
    if (this.#all.size > this.#limit) this.#evictOldest();
  }

  /**
   * Removes and returns the one used last: the longer a connection is idle, the likelier the endpoint has closed it.
   */
  take(origin: string): Connection | undefined {
    const connection = this.#byOrigin.get(origin)?.at(-1);
    if (connection !== undefined) this.remove(connection);
    return connection;
  }

  remove(connection: Connection): void {
    if (!this.#all.delete(connection)) return;
    const others = this.#byOrigin.get(connection.origin);
    const index = others?.lastIndexOf(connection) ?? -1;
    if (others === undefined || index === -1) return;
    others.splice(index, 1);
    if (others.length === 0) this.#byOrigin.delete(connection.origin);
  }

  #evictOldest(): void {
    const [first] = this.#all;
    if (first === undefined) return;
    this.remove(first);
    this.#onEvicted(first);
  }
}

export type OutgoingRequest = {
  /** Default `POST`. */
  method?: 'POST' | 'OPTIONS' | 'GET';
  path: string;
  /** Names and values alternate. */
  headers: string[];
  body: Uint8Array;
  /** Called when the connection is open, before anything is sent: the lease may have expired meanwhile. */
  mayBegin: () => boolean;
};

const ANSWER_HEADERS_BYTES = 16 * 1024;

type Deps = {
  dialer: Dialer;
  idleMs: number;
  nowMs: () => number;
  /** The connection was closed by the endpoint or by its idle time-out. */
  onClosed: (connection: Connection) => void;
};

/**
 * One connection to an endpoint, with one exchange at a time. Has an undici `Client` of its own: an undici `Agent` does not expose
 * the socket of an exchange, so that it would be unknown whether it was used before, and it could not be closed while it is
 * opened. An exchange takes 22 µs of processor time, and through an `Agent` 23 (200 endpoints, 256 at once).
 */
export class Connection {
  readonly origin: string;
  readonly #client: Client;
  readonly #deps: Deps;
  #opening: Opening | undefined;
  #socket: Socket | undefined;
  #intake: Intake | undefined;
  #step: 'dns' | 'connect' | 'tls' | 'open' = 'dns';
  #openedAtMs = 0;
  #hasServed = false;

  constructor(origin: string, deps: Deps) {
    this.origin = origin;
    this.#deps = deps;
    const { hostname, port, protocol } = new URL(origin);
    const isTls = protocol === 'https:';
    const where = {
      origin,
      hostname: hostname.replace(/^\[|\]$/g, ''),
      port: Number(port) || (isTls ? 443 : 80),
      isTls,
      onStep: (step: 'dns' | 'connect' | 'tls') => void (this.#step = step),
    };
    this.#client = new Client(origin, {
      // undici calls this again if the socket turns out to be closed before anything was written.
      connect: (_options, callback) => {
        this.#hasServed = false;
        this.#opening = deps.dialer.dial({
          ...where,
          done: (error, socket) => {
            if (socket === null) return callback(error ?? new Error('no socket'), null);
            this.#step = 'open';
            this.#socket = socket;
            this.#openedAtMs = deps.nowMs();
            this.#intake = intakeOf(socket);
            callback(null, socket);
          },
        });
      },
      pipelining: 1,
      // The deadline of the exchange applies instead.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: deps.idleMs,
      // A keep-alive time-out sent by the endpoint can only shorten this one.
      keepAliveMaxTimeout: deps.idleMs,
      maxHeaderSize: ANSWER_HEADERS_BYTES,
    });
    this.#client.on('disconnect', () => deps.onClosed(this));
  }

  /** Returns the current step of opening, or `open`. */
  get step(): 'dns' | 'connect' | 'tls' | 'open' {
    return this.#step;
  }

  /** Returns whether an exchange was completed on it. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  /** Returns whether any byte arrived since the request was sent. */
  get hasReceived(): boolean {
    return this.#intake?.hasReceived === true;
  }

  /** Returns whether bytes of the request are still buffered in this process. */
  get hasUnsent(): boolean {
    return (this.#socket?.writableLength ?? 0) > 0;
  }

  /** Milliseconds since it was opened. */
  get ageMs(): number {
    return this.#deps.nowMs() - this.#openedAtMs;
  }

  /** Sends the request; all errors, those of the request included, go to the handler. */
  send({ method = 'POST', path, headers, body }: OutgoingRequest, handler: Dispatcher.DispatchHandler): void {
    this.#intake?.expect();
    this.#client.dispatch({ method, path, headers, body }, handler);
  }

  /** Counts bytes of the response's body. */
  countBody(bytes: number): void {
    this.#intake?.countBody(bytes);
  }

  served(): void {
    this.#hasServed = true;
  }

  /** Closes it immediately, even while it is being opened: undici would wait until the socket is open. */
  close(): void {
    this.#opening?.destroy();
    void this.#client.destroy();
  }
}

export type ConnectionSettings = DialSettings & {
  /** Limits of idle connections to all origins together (a file descriptor and 20 KB each, more with TLS). */
  idleSockets: number;
  idleSocketMs: number;
  connectionAgeMs: number;
};

/** Open connections (a file descriptor each), and counters since the start. */
export type Sockets = {
  opening: number;
  busy: number;
  idle: number;
  opened: number;
  reused: number;
  handshakes: { full: number; resumed: number };
};

/** Connections in use are not limited here but by the slots; nothing waits in this class. */
export class Connections implements Running {
  readonly #dialer: Dialer;
  readonly #clock: Clock;
  readonly #settings: ConnectionSettings;
  readonly #all = new Set<Connection>();
  readonly #idle: IdleConnections;
  #opened = 0;
  #reused = 0;

  constructor(runtime: Pick<Runtime, 'guard' | 'clock'>, settings: ConnectionSettings) {
    this.#dialer = createDialer(runtime, settings);
    this.#clock = runtime.clock;
    this.#settings = settings;
    this.#idle = new IdleConnections(settings.idleSockets, (connection) => this.drop(connection));
  }

  /** Returns the idle connection that was used last, otherwise a new one. */
  take(origin: string): Connection {
    for (let idle = this.#idle.take(origin); idle !== undefined; idle = this.#idle.take(origin)) {
      if (idle.ageMs < this.#settings.connectionAgeMs) {
        this.#reused += 1;
        return idle;
      }
      // The age limit makes changes of DNS or of the guard's rules take effect.
      this.drop(idle);
    }
    return this.open(origin);
  }

  /** Opens a new connection. */
  open(origin: string): Connection {
    const connection = new Connection(origin, {
      dialer: this.#dialer,
      idleMs: this.#settings.idleSocketMs,
      nowMs: this.#clock.monotonicMs,
      onClosed: this.#closed,
    });
    this.#opened += 1;
    this.#all.add(connection);
    return connection;
  }

  /** Keeps a connection for reuse after a complete response. */
  release(connection: Connection): void {
    connection.served();
    this.#idle.add(connection);
  }

  /** Closes a connection in any state. */
  drop(connection: Connection): void {
    this.#all.delete(connection);
    this.#idle.remove(connection);
    connection.close();
  }

  get sockets(): Sockets {
    const opening = [...this.#all].filter(({ step }) => step !== 'open').length;
    return {
      opening,
      busy: this.#all.size - this.#idle.size - opening,
      idle: this.#idle.size,
      opened: this.#opened,
      reused: this.#reused,
      handshakes: this.#dialer.handshakes,
    };
  }

  async stop(): Promise<void> {
    for (const connection of this.#all) this.drop(connection);
  }

  /** Drops a closed idle connection; one in use is handled by its exchange. */
  readonly #closed = (connection: Connection): void => {
    if (this.#idle.has(connection)) this.drop(connection);
  };
}
