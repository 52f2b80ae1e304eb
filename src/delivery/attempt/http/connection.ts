/** One connection to an endpoint, with one exchange at a time. */
import type { Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import type { Dialer } from './dial.ts';
import { intakeOf, type Intake } from './intake.ts';

export type Request = {
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
 * Has an undici `Client` of its own: an undici `Pool` does not expose the socket of an exchange, so that it would be
 * unknown whether it was used before, and it could not be closed while it is opened.
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
      // undici calls this again if the socket turns out to be closed before anything was written.
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
  send({ path, headers, body }: Request, handler: Dispatcher.DispatchHandler): void {
    this.#intake?.expect();
    this.#client.dispatch({ method: 'POST', path, headers, body }, handler);
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
    this.#socket?.destroy();
    void this.#client.destroy();
  }
}
