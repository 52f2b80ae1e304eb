/** A stream that is opened again whenever it ends: through restarts of the server, cut networks and tokens that run out. */
import { setTimeout as pause } from 'node:timers/promises';
import { EXIT, UserError } from '../explain.ts';
import type { Api } from '../session/api.ts';
import { isTemporary, reasonOf } from '../session/exchange.ts';
import { eventsIn, type ServerEvent } from './server-events.ts';

export type Line = {
  api: Pick<Api, 'open'>;
  /** Aborted when somebody wants us to stop. */
  stop: AbortSignal;
  random: () => number;
  /** Told once of each spell of trouble, and once of its end. */
  say: (text: string) => void;
  /** How long the server has for the head of its answer, or for the whole of a refusal. */
  answerMs?: number;
};

/** Halcyon says something every 15 s at least. */
const SILENCE_MS = 45_000;
const ANSWER_MS = 30_000;
const FIRST_MS = 200;
const LONGEST_MS = 5_000;

/** Doubling, with half of it by chance, so that many who were cut off at once do not come back at once. */
export const backoffMs = (tries: number, random: number): number => {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(tries, 10));
  return most / 2 + (most / 2) * random;
};

export const isPassing = (error: unknown): boolean => error instanceof UserError && error.exitCode === EXIT.unreachable;

/** Its events; throws a `UserError` where it is refused for good. */
async function* once({ api, stop, answerMs = ANSWER_MS }: Line, address: string): AsyncGenerator<ServerEvent | 'open'> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new UserError('no answer in time', EXIT.unreachable)), answerMs);
  const signal = AbortSignal.any([stop, late.signal]);
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
  throw new UserError(isGone ? 'Somebody has removed the webhook of this listener: start it again' : reason);
}

/** The events of a held webhook, until `stop`; throws a `UserError` where nothing but another command can help. */
export async function* eventsOf(line: Line, address: string): AsyncGenerator<ServerEvent> {
  const { stop, random, say } = line;
  let isTold = false;
  for (let tries = 0; !stop.aborted; tries += 1) {
    let trouble = 'the server ended the connection';
    try {
      for await (const event of once(line, address)) {
        if (event !== 'open') {
          yield event;
          continue;
        }
        if (isTold) say('Connected again.');
        [isTold, tries] = [false, 0];
      }
    } catch (error) {
      if (stop.aborted) return;
      if (error instanceof UserError && !isPassing(error)) throw error;
      trouble = (error as Error).message;
    }
    if (stop.aborted) return;
    if (!isTold) say(`Not connected (${trouble}): trying again until it is; what happens meanwhile is held.`);
    isTold = true;
    await pause(backoffMs(tries, random()), undefined, { signal: stop }).catch(() => {});
  }
}
