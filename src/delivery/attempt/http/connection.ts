/** One connection to an endpoint: one exchange at a time, one after the other. */
import type { Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import type { Dialer } from './dial.ts';
import { intakeOf, type Intake } from './intake.ts';

export type Request = {
  path: string;
  /** Each name followed by its value. */
  headers: string[];
  body: Uint8Array;
  /** Asked when the connection is there and before anything is sent: opening it may have outlasted our lease. */
  mayBegin: () => boolean;
};

const ANSWER_HEADERS_BYTES = 16 * 1024;

type Deps = {
  dialer: Dialer;
  idleMs: number;
  nowMs: () => number;
  /** The other side, or its own time-out, closed it. */
  onClosed: (connection: Connection) => void;
};

/**
 * An undici `Client` of its own, and not a place in an undici `Pool`: a pool does not tell which socket an exchange has,
 * so that neither could be known whether it was used before, nor one closed while it is being opened.
 */
export class Connection {
  readonly origin: string;
  readonly #client: Client;
  readonly #deps: Deps;
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
      // Called again by undici where the socket turns out to be closed before anything was written.
      connect: (_options, callback) => {
        this.#hasServed = false;
        this.#socket = deps.dialer.dial({
          ...where,
          done: (error, socket) => {
            if (socket === null) return callback(error ?? new Error('no socket'), null);
            this.#step = 'open';
            this.#openedAtMs = deps.nowMs();
            this.#intake = intakeOf(socket);
            callback(null, socket);
          },
        });
      },
      pipelining: 1,
      // The exchange has a deadline over the whole.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: deps.idleMs,
      // What an endpoint says of its own time-out can only shorten ours.
      keepAliveMaxTimeout: deps.idleMs,
      maxHeaderSize: ANSWER_HEADERS_BYTES,
    });
    this.#client.on('disconnect', () => deps.onClosed(this));
  }

  /** How far it is; `open` when it is. */
  get step(): 'dns' | 'connect' | 'tls' | 'open' {
    return this.#step;
  }

  /** An exchange was answered on it. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  /** Whether any byte came since the request was sent. */
  get hasReceived(): boolean {
    return this.#intake?.hasReceived === true;
  }

  /** Bytes of the request that the kernel has not taken yet. */
  get hasUnsent(): boolean {
    return (this.#socket?.writableLength ?? 0) > 0;
  }

  /** Milliseconds since it was opened. */
  get ageMs(): number {
    return this.#deps.nowMs() - this.#openedAtMs;
  }

  /** Sends the request; the handler is told of everything, what is wrong with the request included. */
  send({ path, headers, body }: Request, handler: Dispatcher.DispatchHandler): void {
    this.#intake?.expect();
    this.#client.dispatch({ method: 'POST', path, headers, body }, handler);
  }

  /** So much of what came is the answer's body. */
  countBody(bytes: number): void {
    this.#intake?.countBody(bytes);
  }

  served(): void {
    this.#hasServed = true;
  }

  /** Closes it at once, also while it is being opened: undici would let the socket come and close it then. */
  close(): void {
    this.#socket?.destroy();
    void this.#client.destroy();
  }
}
