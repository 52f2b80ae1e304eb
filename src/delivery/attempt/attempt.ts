/** An attempt: composes the request of a delivery, sends it once, and returns its outcome. */
import type { Clock } from '#core/clock.ts';
import type { Connections } from './http/connections.ts';
import { startExchange, type ExchangeLimits, type Wire } from './http/exchange.ts';
import { labelOf, type Outcome } from './http/outcome.ts';
import type { Body, Composer, RequestContext } from './request.ts';

/** An attempt that has ended. `wire` is absent if no request was started. */
export type Attempt = { startedAt: Date; durationMs: number; outcome: Outcome; wire?: Wire };

export type RunningAttempt = {
  /** Null after `abort()`: the result is unknown and not recorded. Never rejects. */
  readonly ended: Promise<Attempt | null>;
  abort: () => void;
};

export type AttemptDeps = { composer: Composer; connections: Connections; clock: Clock; settings: ExchangeLimits };

/**
 * Starts the attempt before it returns. `mayBegin` is called when the connection is open, before the first byte. Throws
 * if the request cannot be composed.
 */
export function attempt(
  context: Omit<RequestContext, 'now'>,
  body: Body,
  mayBegin: () => boolean,
  { composer, connections, clock, settings }: AttemptDeps,
): RunningAttempt {
  const startedAt = clock.now();
  const startedMs = clock.monotonicMs();
  const { url, origin, mask } = context.target;
  const message = composer.compose({ ...context, now: startedAt }, body);
  const request = { path: url.pathname + url.search, ...message, mayBegin };
  const exchange = startExchange(origin, request, { connections, clock, limits: settings, mask });
  return {
    ended: exchange.outcome.then(
      (outcome) => ({ startedAt, durationMs: clock.monotonicMs() - startedMs, outcome, wire: exchange.wire }),
      // Only an aborted exchange is rejected.
      () => null,
    ),
    abort: () => exchange.abort(),
  };
}

/** Returns an attempt that this process could not make. `threw`: its delivery itself cannot be sent. */
export function unsentAttempt(kind: 'internal' | 'threw', why: unknown, now: Date): Attempt {
  return { startedAt: now, durationMs: 0, outcome: { kind, why: String(why), reply: null } };
}

/** The columns of the only attempt of a delivery, and the state in which the delivery ends. */
export type AttemptRow = {
  state: 'successful' | 'failed';
  startedAt: Date;
  durationMs: number;
  outcome: string;
  responseCode: number | null;
  responseHeaders: string | null;
  responseBody: string | null;
};

export function rowOf({ startedAt, durationMs, outcome }: Attempt): AttemptRow {
  const { kind, reply } = outcome;
  return {
    state: kind === 'delivered' ? 'successful' : 'failed',
    startedAt,
    durationMs: Math.round(durationMs),
    outcome: labelOf(outcome),
    responseCode: reply?.code ?? null,
    responseHeaders: reply?.headers ?? null,
    responseBody: reply?.body ?? null,
  };
}
