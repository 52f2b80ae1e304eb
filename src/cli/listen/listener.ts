/** Processes the stream of a pull webhook: verifies, forwards and reports each delivery, and acknowledges it to the server. */
import { setTimeout as pause } from 'node:timers/promises';
import { rememberIds } from '#receiver';
import type { Api } from '../session/api.ts';
import { isTemporary, reasonOf } from '../session/exchange.ts';
import { backoffMs, eventsOf, isTransient, type StreamOptions } from './connection.ts';
import { forward, type Forwarded } from './forward.ts';
import type { PullWebhook } from './pull-webhook.ts';
import { openMessage, readMessage, type Message } from './message.ts';
import type { DeliveryReport } from './report.ts';

export type Listening = StreamOptions & {
  api: Api;
  key: string;
  /** The address of the app; undefined if deliveries are only shown. */
  address: URL | undefined;
  report: (report: DeliveryReport) => void;
  nowMs: () => number;
};

/** Keeps the order of arrival approximately, without one slow delivery blocking all others. */
const FORWARDS_AT_ONCE = 4;

/** The result of a delivery that is only shown. */
const SHOWN: Forwarded = { response_code: null, duration: 0 };
const NOT_VERIFIED: Forwarded = { response_code: null, duration: 0, outcome: 'malformed' };

/**
 * Sends the result to the server and retries until it is stored, so that a reconnected stream does not send the delivery again.
 * A 404 or 409 means that the delivery has already ended.
 */
async function acknowledge(listening: Listening, address: string, forwarded: Forwarded): Promise<void> {
  const { api, stop, random, warn } = listening;
  for (let tries = 0; ; tries += 1) {
    try {
      const response = await api.request(address, { method: 'POST', body: forwarded, signal: stop });
      if (!isTemporary(response.status)) {
        if (response.status >= 300) warn(`The server rejected the result: ${reasonOf(response)}`);
        return;
      }
    } catch (error) {
      stop.throwIfAborted();
      if (!isTransient(error)) throw error;
    }
    await pause(backoffMs(tries, random()), undefined, { signal: stop });
  }
}

async function handle(listening: Listening, message: Message): Promise<void> {
  const { key, address, report, nowMs, stop } = listening;
  const opened = await openMessage(message, key);
  const isOpen = typeof opened !== 'string';
  const forwarded = isOpen && address !== undefined ? await forward(address, message, { stop, nowMs }) : undefined;
  report({ message, opened, forwarded });
  const result = forwarded ?? (isOpen ? SHOWN : NOT_VERIFIED);
  await acknowledge(listening, message.answer, result);
}

/**
 * Forwards the deliveries of a pull webhook until `stop`. A delivery that a reconnected stream repeats is ignored, because this
 * process is already handling it. Deliveries of a killed process are sent again to the next one.
 */
export async function listenTo(listening: Listening, webhook: PullWebhook): Promise<void> {
  const isNew = rememberIds();
  const running = new Set<Promise<void>>();
  const failed = new AbortController();
  const stop = AbortSignal.any([listening.stop, failed.signal]);
  const stoppable = { ...listening, stop };
  const start = (message: Message): void => {
    const task: Promise<void> = handle(stoppable, message)
      .catch((error: unknown) => {
        if (!stop.aborted) failed.abort(error);
      })
      .finally(() => running.delete(task));
    running.add(task);
  };
  for await (const { event, data } of eventsOf(stoppable, webhook.stream)) {
    if (event !== 'delivery') continue;
    const message = readMessage(data);
    if (!isNew(String(message.delivery_id))) continue;
    start(message);
    if (running.size >= FORWARDS_AT_ONCE) await Promise.race(running);
  }
  await Promise.all(running);
  failed.signal.throwIfAborted();
}
