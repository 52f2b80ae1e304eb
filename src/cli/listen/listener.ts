/** From the stream of a held webhook to the app and back: each delivery is opened, forwarded, told of and answered. */
import { setTimeout as pause } from 'node:timers/promises';
import { rememberIds } from '#receiver';
import type { Api } from '../session/api.ts';
import { isTemporary, reasonOf } from '../session/exchange.ts';
import { backoffMs, eventsOf, isPassing, type Line } from './connection.ts';
import { forward, type Forwarded } from './forward.ts';
import type { Holding } from './pull-webhook.ts';
import { openMessage, readMessage, type Message } from './message.ts';
import type { Told } from './report.ts';

export type Listening = Line & {
  api: Api;
  key: string;
  /** Where it goes; undefined where it is only looked at. */
  address: URL | undefined;
  tell: (told: Told) => void;
  nowMs: () => number;
};

/** In about the order in which it came; one that is slow keeps some others waiting and not all. */
const FORWARDS_AT_ONCE = 4;

/** What is only looked at has arrived. */
const LOOKED_AT: Forwarded = { response_code: null, duration: 0 };
const NOT_VERIFIED: Forwarded = { response_code: null, duration: 0, outcome: 'malformed' };

/**
 * Says what became of it until the server has it, so that a stream that is opened again does not bring it again. A 404 or 409
 * says that it has ended otherwise.
 */
const answer = async (listening: Listening, address: string, forwarded: Forwarded): Promise<void> => {
  const { api, stop, random, say } = listening;
  for (let tries = 0; ; tries += 1) {
    try {
      const answered = await api.ask(address, { method: 'POST', body: forwarded, signal: stop });
      if (!isTemporary(answered.status)) {
        if (answered.status >= 300) say(`The server does not take the answer: ${reasonOf(answered)}`);
        return;
      }
    } catch (error) {
      stop.throwIfAborted();
      if (!isPassing(error)) throw error;
    }
    await pause(backoffMs(tries, random()), undefined, { signal: stop });
  }
};

const handle = async (listening: Listening, message: Message): Promise<void> => {
  const { key, address, tell, nowMs, stop } = listening;
  const opened = await openMessage(message, key);
  const isOpen = typeof opened !== 'string';
  const forwarded = isOpen && address !== undefined ? await forward(address, message, { stop, nowMs }) : undefined;
  tell({ message, opened, forwarded });
  const result = forwarded ?? (isOpen ? LOOKED_AT : NOT_VERIFIED);
  await answer(listening, message.answer, result);
};

/**
 * Forwards what one webhook holds until `stop`. What this process has begun with it does not begin again, whatever a stream
 * that was opened again brings: its answer is on its way. What a process that was killed had begun, the next would get again.
 */
export const listenTo = async (listening: Listening, holding: Holding): Promise<void> => {
  const isNew = rememberIds();
  const underWay = new Set<Promise<void>>();
  const failed = new AbortController();
  const stop = AbortSignal.any([listening.stop, failed.signal]);
  const within = { ...listening, stop };
  const begin = (message: Message): void => {
    const one: Promise<void> = handle(within, message)
      .catch((error: unknown) => {
        if (!stop.aborted) failed.abort(error);
      })
      .finally(() => underWay.delete(one));
    underWay.add(one);
  };
  for await (const { event, data } of eventsOf(within, holding.stream)) {
    if (event !== 'delivery') continue;
    const message = readMessage(data);
    if (!isNew(String(message.delivery_id))) continue;
    begin(message);
    if (underWay.size >= FORWARDS_AT_ONCE) await Promise.race(underWay);
  }
  await Promise.all(underWay);
  failed.signal.throwIfAborted();
};
