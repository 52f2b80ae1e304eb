/** Connections to endpoints: open, idle for reuse, and closed by age. */
import type { Clock } from '#core/clock.ts';
import type { Running } from '#core/lifecycle.ts';
import { Connection } from './connection.ts';
import { createDialer, type Dialer, type DialSettings } from './dial.ts';
import type { Guard } from './guard.ts';
import { IdleConnections } from './idle-connections.ts';

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

  constructor(deps: { guard: Guard; clock: Clock; settings: ConnectionSettings }) {
    this.#dialer = createDialer(deps);
    this.#clock = deps.clock;
    this.#settings = deps.settings;
    this.#idle = new IdleConnections(deps.settings.idleSockets, (connection) => this.drop(connection));
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
