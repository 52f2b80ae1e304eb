/**
 * Processes the stream of a pull webhook: verifies, forwards and reports each delivery, and acknowledges it to the server. The stream
 * reconnects after server restarts, network failures and token expiry.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { rememberIds } from '#receiver';
import type { Api } from '../session/api-session.ts';
import { DOCUMENT_BYTES_MAX, isTemporary, objectIn, reasonOf, textOf } from '../session/json-request.ts';
import { EXIT, UserError } from '../explain.ts';
import { forward, type Forwarded } from './forward.ts';
import type { PullWebhook } from './pull-webhook.ts';
import { openMessage, readMessage, type DeliveryReport, type Message } from './report.ts';

/** Larger than any delivery, whose body has at most 1 MiB; limits the memory for an event without an end. */
const EVENT_CHARACTERS_MAX = 8 * 1024 * 1024;

const SILENT = 'the connection is silent';

/** Reads once; throws on a time-out. Time counts only during a read, so a slow app does not look like a silent connection. */
async function readWithin<T>(read: () => Promise<T>, silenceMs: number): Promise<T> {
  const { promise: silent, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(SILENT)), silenceMs);
  try {
    return await Promise.race([read(), silent]);
  } finally {
    clearTimeout(timer);
  }
}

/** Yields the events until the stream ends; throws if it breaks, or if not even a comment arrives for `silenceMs`. */
export async function* eventsIn(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  silenceMs: number,
): AsyncGenerator<EventSourceMessage> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => events.push(event), maxBufferSize: EVENT_CHARACTERS_MAX });
  try {
    for (;;) {
      const { done, value } = await readWithin(() => reader.read(), silenceMs);
      if (done) return;
      parser.feed(value);
      for (const event of events.splice(0)) yield event;
    }
  } finally {
    // Does not wait: cancelling a silent stream may never resolve.
    void reader.cancel().catch(() => {});
  }
}

type StreamOptions = {
  api: Pick<Api, 'open'>;
  /** A stop signal aborts it. */
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

/**
 * Waits before another try: exponential backoff with 50 % jitter, so that clients that were disconnected together do not reconnect
 * together. Rejects on `stop`.
 */
function backOff(tries: number, { random, stop }: Pick<StreamOptions, 'random' | 'stop'>): Promise<void> {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(tries, 10));
  return pause(most / 2 + (most / 2) * random(), undefined, { signal: stop });
}

function isTransient(error: unknown): boolean {
  return error instanceof UserError && error.exitCode === EXIT.unreachable;
}

/** Yields the events of one connection; throws a `UserError` if it is rejected permanently. */
async function* connect({ api, stop }: StreamOptions, address: string): AsyncGenerator<EventSourceMessage | 'open'> {
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
    reason = reasonOf({ status, json: objectIn(await textOf(response, DOCUMENT_BYTES_MAX).catch(() => '')) });
  } finally {
    clearTimeout(timer);
  }
  if (isTemporary(status)) throw new UserError(reason, EXIT.unreachable);
  const isGone = status === 404 || status === 410;
  throw new UserError(isGone ? 'The webhook of this listener was removed: run halcyon listen again' : reason);
}

/** Yields the events of a pull webhook until `stop`; throws a `UserError` on a permanent failure. */
export async function* eventsOf(options: StreamOptions, address: string): AsyncGenerator<EventSourceMessage> {
  const { stop, warn } = options;
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
    await backOff(tries, options).catch(() => {});
  }
}

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
  const { api, stop, warn } = listening;
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
    await backOff(tries, listening);
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
