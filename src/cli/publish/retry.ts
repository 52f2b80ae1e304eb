/** Retries a request while the server is unreachable, restarting or busy, up to a time limit. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import { retryAfterMs } from '#retry-after';
import { EXIT, UserError } from '../explain.ts';
import { causeOf } from '../session/exchange.ts';

export type RetryOptions = {
  retryForSeconds: number;
  clock: Clock;
  random: () => number;
  /** Aborted by a stop signal. */
  stop: AbortSignal;
  /** Called once per interruption. */
  warn: (text: string) => void;
};

/** A complete response. */
export type Reply = { status: number; retryAfter: string | null; text: string };

const FIRST_MS = 200;
const LONGEST_MS = 10_000;

/** Includes 500: events have idempotency keys, so a retry publishes nothing twice. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** Returns an exponential backoff with 50 % jitter, so that clients that were disconnected together do not retry together. */
function backoffMs(tries: number, random: number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** tries);
  return most / 2 + (most / 2) * random;
}

/** Returns the first response with a permanent status; throws a `UserError` after the time limit, and the reason of `stop`. */
export async function withRetries(request: () => Promise<Reply>, options: RetryOptions): Promise<Reply> {
  const { clock, random, stop, warn, retryForSeconds } = options;
  const startedMs = clock.monotonicMs();
  for (let tries = 0; ; tries += 1) {
    let problem: string;
    let requestedMs = 0;
    try {
      const reply = await request();
      if (!TEMPORARY.has(reply.status)) return reply;
      requestedMs = retryAfterMs(reply.retryAfter, clock.now().getTime());
      problem = `the server answers ${reply.status}`;
    } catch (error) {
      stop.throwIfAborted();
      problem = `no answer from the server (${causeOf(error)})`;
    }
    const waitMs = Math.max(requestedMs, backoffMs(tries, random()));
    if (clock.monotonicMs() + waitMs - startedMs > retryForSeconds * 1000) {
      const requested = requestedMs > 0 ? ` and requests a wait of ${Math.ceil(requestedMs / 1000)} s` : '';
      throw new UserError(`${problem}${requested}; --retry-for allows ${retryForSeconds} s`, EXIT.unreachable);
    }
    if (tries === 0) warn(`${problem}: retrying for ${retryForSeconds} s`);
    await pause(waitMs, undefined, { signal: stop });
  }
}
