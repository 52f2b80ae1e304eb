/** Outcomes of an exchange with an endpoint. A receiver's 500 is data, not an exception. */
import type { OutcomeLabel } from '#core/outcome.ts';

export type Reply = { code: number; headers: string; body: string };

/**
 * Phases: DNS look-up, opening the connection, TLS handshake, sending the request (part of it is still in this
 * process), waiting for the response's header section, reading its body.
 */
export type Phase = 'dns' | 'connect' | 'tls' | 'send' | 'answer' | 'body';

export type Outcome =
  | { kind: 'delivered'; reply: Reply }
  /** Any other status. `retryAfterMs` > 0 if a 429 or 503 asked for a pause (RFC 9110 §10.2.3). */
  | { kind: 'refused'; reply: Reply; retryAfterMs: number }
  /** 410: the endpoint is gone permanently. */
  | { kind: 'gone'; reply: Reply }
  /** The time-out of the exchange, or the shorter one of opening a connection, expired. */
  | { kind: 'timed_out'; phase: Exclude<Phase, 'dns'>; reply: null }
  /** `reset`: the connection ended before the response did. */
  | { kind: 'unreachable'; why: 'dns' | 'connect' | 'tls' | 'reset'; reply: null }
  /** The response is not HTTP/1.1 (RFC 9112): another protocol, lines without CR, contradicting lengths. */
  | { kind: 'malformed'; reply: null }
  /** The header section, its 1xx included, exceeds its limit. A long body is only cut, because the status decides. */
  | { kind: 'too_large'; reply: null }
  /** The guard blocks the address, which only the operator may see if the host is a name. */
  | { kind: 'blocked'; why: string; address: string; reply: null }
  /** An error in the environment of this process (resolver, database): never charged to the endpoint. */
  | { kind: 'internal'; why: string; reply: null }
  /** Rendering or sending this delivery threw: not charged to the endpoint either. */
  | { kind: 'threw'; why: string; reply: null };

/** Returns whether the error is internal, so that no attempt is charged. */
export const isInternalError = ({ kind }: Outcome): boolean => kind === 'internal' || kind === 'threw';

/**
 * Returns the label of the attempt's row: `delivered`, `refused`, `timed_out:connect`, `unreachable:dns`, …,
 * `internal`.
 */
export const labelOf = (outcome: Outcome): OutcomeLabel => {
  switch (outcome.kind) {
    case 'timed_out':
      return `timed_out:${outcome.phase}`;
    case 'unreachable':
      return `unreachable:${outcome.why}`;
    case 'delivered':
    case 'refused':
    case 'gone':
    case 'blocked':
    case 'too_large':
    case 'malformed':
      return outcome.kind;
    case 'internal':
    case 'threw':
      return 'internal';
  }
};

const RETRY_AFTER_STATUSES: ReadonlySet<number> = new Set([429, 503]);

/** Returns the milliseconds requested by `Retry-After` (seconds or a date), without a limit; 0 if absent or invalid. */
export const retryAfterMs = (header: string | undefined, now: Date): number => {
  if (header === undefined) return 0;
  if (/^[0-9]+$/.test(header.trim())) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? 0 : Math.max(0, at - now.getTime());
};

/** Returns the outcome of an exchange with a response. */
export const outcomeOfReply = (reply: Reply, retryAfter: string | undefined, now: Date): Outcome => {
  if (reply.code >= 200 && reply.code < 300) return { kind: 'delivered', reply };
  if (reply.code === 410) return { kind: 'gone', reply };
  const pause = RETRY_AFTER_STATUSES.has(reply.code) ? retryAfterMs(retryAfter, now) : 0;
  return { kind: 'refused', reply, retryAfterMs: pause };
};
