/**
 * Caches TLS sessions, so that the next connection to an origin is resumed: a full handshake costs each side about a
 * millisecond.
 */
import { LRUCache } from 'lru-cache';

/** A resumed session is not verified again, so a chain of sessions ends an hour after its certificate was verified. */
const VERIFIED_FOR_MS = 3_600_000;

export type Session = { ticket: Buffer; verifiedAtMs: number };

/**
 * By origin: a session of one name must not be used for another, and Node does not compare names on resumption.
 * undici's own cache contains 100 weak references, which every garbage collection clears.
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

  /** Stores the newest ticket, which all further connections offer until another arrives. */
  keep(origin: string, session: Session): void {
    this.#kept.set(origin, session);
  }

  forget(origin: string, session: Session): void {
    if (this.#kept.peek(origin) === session) this.#kept.delete(origin);
  }
}
