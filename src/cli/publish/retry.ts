/** Asking again while it may help: a server that is away, restarting or busy, for as long as somebody is willing to wait. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '#core/clock.ts';
import { EXIT, UserError } from '../explain.ts';
import { causeOf } from '../session/exchange.ts';

export type RetryOptions = {
  retryForSeconds: number;
  clock: Clock;
  random: () => number;
  /** Aborted when somebody wants us to stop. */
  stop: AbortSignal;
  /** Told once of each spell of trouble. */
  warn: (text: string) => void;
};

/** Read to its end: what breaks off on the way is no answer. */
export type Reply = { status: number; retryAfter: string | null; text: string };

const FIRST_MS = 200;
const LONGEST_MS = 10_000;

/** 500 belongs to them: events have keys, so that sending them again publishes nothing twice. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** What `Retry-After` asks for (RFC 9110 §10.2.3): seconds or a date. */
const retryAfterMs = (header: string | null, now: Date): number => {
  if (header === null) return 0;
  const ms = /^[0-9]+$/.test(header) ? 1000 * Number(header) : Date.parse(header) - now.getTime();
  return Number.isFinite(ms) ? Math.max(0, ms) : 0;
};

/** Doubling, with half of it by chance, so that many who were cut off at once do not come back at once. */
const backoffMs = (tries: number, random: number): number => {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** tries);
  return most / 2 + (most / 2) * random;
};

/** The first answer that is not a temporary one; throws a `UserError` when patience ends, and what `stop` says when told to. */
export const withRetries = async (ask: () => Promise<Reply>, patience: RetryOptions): Promise<Reply> => {
  const { clock, random, stop, warn, retryForSeconds } = patience;
  const beganMs = clock.monotonicMs();
  for (let tries = 0; ; tries += 1) {
    let trouble: string;
    let askedMs = 0;
    try {
      const answer = await ask();
      if (!TEMPORARY.has(answer.status)) return answer;
      askedMs = retryAfterMs(answer.retryAfter, clock.now());
      trouble = `the server answers ${answer.status}`;
    } catch (error) {
      stop.throwIfAborted();
      trouble = `no answer from the server (${causeOf(error)})`;
    }
    const waitMs = Math.max(askedMs, backoffMs(tries, random()));
    if (clock.monotonicMs() + waitMs - beganMs > retryForSeconds * 1000) {
      const asked = askedMs > 0 ? ` and asks for ${Math.ceil(askedMs / 1000)} s` : '';
      throw new UserError(`${trouble}${asked}; --retry-for allows ${retryForSeconds} s`, EXIT.unreachable);
    }
    if (tries === 0) warn(`${trouble}: trying again for ${retryForSeconds} s`);
    await pause(waitMs, undefined, { signal: stop });
  }
};
