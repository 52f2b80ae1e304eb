/** How an exchange with an endpoint ended. A receiver's 500 is data, not an exception. */
import type { OutcomeLabel } from '#core/outcome.ts';

export type Reply = { code: number; headers: string; body: string };

/**
 * How far an exchange is: looking up the name, opening the connection, shaking hands, sending the request (some of it has
 * not left this process), waiting for the head of the answer, reading its body.
 */
export type Phase = 'dns' | 'connect' | 'tls' | 'send' | 'answer' | 'body';

export type Outcome =
  | { kind: 'delivered'; reply: Reply }
  /** Any other status. `retryAfterMs` > 0 where a 429 or 503 asked for a pause (RFC 9110 §10.2.3). */
  | { kind: 'refused'; reply: Reply; retryAfterMs: number }
  /** 410: the endpoint says it is gone for good. */
  | { kind: 'gone'; reply: Reply }
  /** The time-out of the exchange, or the shorter one of opening a connection, was over. */
  | { kind: 'timed_out'; phase: Exclude<Phase, 'dns'>; reply: null }
  /** `reset`: the connection ended before the answer did. */
  | { kind: 'unreachable'; why: 'dns' | 'connect' | 'tls' | 'reset'; reply: null }
  /** What came is not HTTP/1.1 (RFC 9112): another protocol, lines without CR, lengths that contradict each other. */
  | { kind: 'malformed'; reply: null }
  /** The head of the answer, its 1xx included, goes beyond its limit. A long body is only cut: the status says it all. */
  | { kind: 'too_large'; reply: null }
  /** The guard does not let us talk to that address, which is for the operator alone where the host is a name. */
  | { kind: 'blocked'; why: string; address: string; reply: null }
  /** A fault of our own side, in what surrounds us (a resolver, a database): never charged to the endpoint. */
  | { kind: 'internal'; why: string; reply: null }
  /** A fault of our own side in this very delivery: to render or to send it threw. Never charged either. */
  | { kind: 'threw'; why: string; reply: null };

/** Whether the fault is our own side's, and no attempt is charged. */
export const isInternalError = ({ kind }: Outcome): boolean => kind === 'internal' || kind === 'threw';

/** One word for the attempt's row: `delivered`, `refused`, `timed_out:connect`, `unreachable:dns`, …; `internal`: our own fault. */
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

/** Milliseconds that `Retry-After` asks for, however many: seconds, or a date; 0 where it is absent or unreadable. */
export const retryAfterMs = (header: string | undefined, now: Date): number => {
  if (header === undefined) return 0;
  if (/^[0-9]+$/.test(header.trim())) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? 0 : Math.max(0, at - now.getTime());
};

/** The outcome of an exchange that was answered. */
export const outcomeOfReply = (reply: Reply, retryAfter: string | undefined, now: Date): Outcome => {
  if (reply.code >= 200 && reply.code < 300) return { kind: 'delivered', reply };
  if (reply.code === 410) return { kind: 'gone', reply };
  const pause = RETRY_AFTER_STATUSES.has(reply.code) ? retryAfterMs(retryAfter, now) : 0;
  return { kind: 'refused', reply, retryAfterMs: pause };
};
