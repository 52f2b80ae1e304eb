/** Connections to endpoints: which there are, which wait to be used again, and for how long. */
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import { Connection } from './connection.ts';
import { createDialer, type Dialer, type DialSettings } from './dial.ts';
import type { Guard } from './guard.ts';
import { IdleConnections } from './idle-connections.ts';

export type ConnectionSettings = DialSettings & {
  /** How many may be idle, to all origins together (each is a file descriptor and 20 KB, more with TLS), and for how long. */
  idleSockets: number;
  idleSocketMs: number;
  connectionAgeMs: number;
};

/** What is open, a file descriptor each, and what was done since the start. */
export type Sockets = {
  opening: number;
  busy: number;
  idle: number;
  opened: number;
  reused: number;
  handshakes: { full: number; resumed: number };
};

/** What is in use has no limit here: it is counted in the lanes, and nothing ever waits in here. */
export class Connections implements Running {
  readonly #dialer: Dialer;
  readonly #clock: Clock;
  readonly #settings: ConnectionSettings;
  readonly #all = new Set<Connection>();
  readonly #idle: IdleConnections;
  #opened = 0;
  #reused = 0;

  constructor(deps: { guard: Guard; clock: Clock; settings: ConnectionSettings }) {
    this.#dialer = createDialer(deps);
    this.#clock = deps.clock;
    this.#settings = deps.settings;
    this.#idle = new IdleConnections(deps.settings.idleSockets, (connection) => this.drop(connection));
  }

  /** One that nobody uses: the one that was used last, else a new one. */
  take(origin: string): Connection {
    for (let idle = this.#idle.take(origin); idle !== undefined; idle = this.#idle.take(origin)) {
      if (idle.ageMs < this.#settings.connectionAgeMs) {
        this.#reused += 1;
        return idle;
      }
      // A change of DNS, or of the guard's rules, takes effect when what was opened before it is too old.
      this.drop(idle);
    }
    return this.open(origin);
  }

  /** A new one. */
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

  /** It was answered, and may be used again. */
  release(connection: Connection): void {
    connection.served();
    this.#idle.add(connection);
  }

  /** Closes it, whatever state it is in. */
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

  /** One that is in use is its exchange's, which hears of it. */
  readonly #closed = (connection: Connection): void => {
    if (this.#idle.has(connection)) this.drop(connection);
  };
}
