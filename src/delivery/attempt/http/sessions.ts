/** TLS sessions, so that the next connection to an origin resumes: a whole handshake costs each side about a millisecond. */
import { LRUCache } from 'lru-cache';

/** A resumed session is not verified again, so a chain of them ends an hour after its certificate was. */
const VERIFIED_FOR_MS = 3_600_000;

export type Session = { ticket: Buffer; verifiedAtMs: number };

/**
 * By origin: the session of one name says nothing of another, and Node compares no name with the certificate of a session
 * that is resumed. undici's own cache holds 100, and weakly, so that every collection of garbage empties it.
 */
export class Sessions {
  readonly #kept: LRUCache<string, Session>;

  constructor(limit: number) {
    this.#kept = new LRUCache({ max: limit });
  }

  find(origin: string, nowMs: number): Session | undefined {
    const session = this.#kept.get(origin);
    return session !== undefined && nowMs - session.verifiedAtMs < VERIFIED_FOR_MS ? session : undefined;
  }

  /** The newest ticket is the one that is offered, by as many connections as are opened until another comes. */
  keep(origin: string, session: Session): void {
    this.#kept.set(origin, session);
  }

  forget(origin: string, session: Session): void {
    if (this.#kept.peek(origin) === session) this.#kept.delete(origin);
  }
}
