/** An event stream that reconnects after server restarts, network failures and token expiry. */
import { setTimeout as pause } from 'node:timers/promises';
import { EXIT, UserError } from '../explain.ts';
import type { Api } from '../session/api.ts';
import { isTemporary, reasonOf } from '../session/exchange.ts';
import { eventsIn, type ServerEvent } from './server-events.ts';

export type StreamOptions = {
  api: Pick<Api, 'open'>;
  /** Aborted by a stop signal. */
  stop: AbortSignal;
  random: () => number;
  /** Called once at the begin of each interruption, and once at its end. */
  warn: (text: string) => void;
};

/** The server sends at least a comment every 15 s. */
const SILENCE_MS = 45_000;
/** The time limit for the response head, or for a complete error response. */
const ANSWER_MS = 30_000;
const FIRST_MS = 200;
const LONGEST_MS = 5_000;

/** Returns an exponential backoff with 50 % jitter, so that clients that were disconnected together do not reconnect together. */
export function backoffMs(tries: number, random: number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(tries, 10));
  return most / 2 + (most / 2) * random;
}

export function isTransient(error: unknown): boolean {
  return error instanceof UserError && error.exitCode === EXIT.unreachable;
}

/** Yields the events of one connection; throws a `UserError` if it is rejected permanently. */
async function* connect({ api, stop }: StreamOptions, address: string): AsyncGenerator<ServerEvent | 'open'> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(new UserError('no response in time', EXIT.unreachable)), ANSWER_MS);
  const signal = AbortSignal.any([stop, timeout.signal]);
  let reason: string;
  let status: number;
  try {
    const response = await api.open(address, { headers: { Accept: 'text/event-stream' }, signal });
    ({ status } = response);
    if (status === 200 && response.body !== null) {
      clearTimeout(timer);
      yield 'open';
      yield* eventsIn(response.body, SILENCE_MS);
      return;
    }
    reason = reasonOf({ status, json: (await response.json().catch(() => ({}))) as Record<string, unknown> });
  } finally {
    clearTimeout(timer);
  }
  if (isTemporary(status)) throw new UserError(reason, EXIT.unreachable);
  const isGone = status === 404 || status === 410;
  throw new UserError(isGone ? 'The webhook of this listener was removed: run halcyon listen again' : reason);
}

/** Yields the events of a pull webhook until `stop`; throws a `UserError` on a permanent failure. */
export async function* eventsOf(options: StreamOptions, address: string): AsyncGenerator<ServerEvent> {
  const { stop, random, warn } = options;
  let isReported = false;
  for (let tries = 0; !stop.aborted; tries += 1) {
    let problem = 'the server ended the connection';
    try {
      for await (const event of connect(options, address)) {
        if (event !== 'open') {
          yield event;
          continue;
        }
        if (isReported) warn('Reconnected.');
        [isReported, tries] = [false, 0];
      }
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof UserError && !isTransient(error)) throw error;
      problem = (error as Error).message;
    }
    if (stop.aborted) return;
    if (!isReported) warn(`Disconnected (${problem}): reconnecting; events are kept meanwhile.`);
    isReported = true;
    await pause(backoffMs(tries, random()), undefined, { signal: stop }).catch(() => {});
  }
}
