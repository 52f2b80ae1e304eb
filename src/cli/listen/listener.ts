/**
 * Processes the stream of a pull webhook: verifies, forwards and reports each delivery, and acknowledges it to the server. The stream
 * reconnects after server restarts, network failures and token expiry.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { rememberIds, WebhookError, type Delivery, verifyDelivery } from '#receiver';
import type { Api } from '../session/api-session.ts';
import { DOCUMENT_BYTES_MAX, isTemporary, objectIn, reasonOf, textOf } from '../session/json-request.ts';
import { EXIT, UserError } from '../explain.ts';
import type { PullWebhook } from './listen-command.ts';
import { request as requestHttp, type IncomingMessage } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Terminal } from '../terminal.ts';
import { prefixIn } from '../verify.ts';

// Prints a line for each delivery, or with --json an object.

/** `forwarded` is undefined if the delivery is only shown; `opened` is a sentence if the verification failed. */
type DeliveryReport = { message: Message; opened: Delivery | string; forwarded: Forwarded | undefined };

const time = (now: Date): string => now.toTimeString().slice(0, 8);

const REASONS: Readonly<Record<string, string>> = {
  'unreachable:connect': 'connection refused',
  'unreachable:dns': 'unknown host name',
  'unreachable:tls': 'untrusted TLS certificate',
  'unreachable:reset': 'connection closed before the response',
  'timed_out:answer': 'no response within 30 s',
  'timed_out:body': 'no complete response within 30 s',
  malformed: 'the response is not HTTP',
};

function resultOf({ opened, forwarded }: DeliveryReport): string {
  if (typeof opened === 'string') return `NOT VERIFIED, and not forwarded: ${opened}`;
  if (forwarded === undefined) return 'verified';
  const { response_code: code, outcome = '', duration } = forwarded;
  return `→ ${code ?? `${REASONS[outcome] ?? outcome},`} in ${duration} ms`;
}

function contentOf(opened: Delivery | string): unknown {
  if (typeof opened === 'string') return undefined;
  try {
    return opened.json();
  } catch {
    return Buffer.from(opened.body).toString();
  }
}

function asObject(report: DeliveryReport, printsBody: boolean, now: Date): object {
  const { message, opened, forwarded } = report;
  return {
    time: now.toISOString(),
    event: eventOf(message),
    event_id: message.event_id,
    delivery_id: message.delivery_id,
    verified: typeof opened !== 'string',
    reason: typeof opened === 'string' ? opened : undefined,
    response_code: forwarded?.response_code,
    duration: forwarded?.duration,
    outcome: forwarded?.outcome,
    body: printsBody ? contentOf(opened) : undefined,
  };
}

export function createReport(
  { print, isJson }: Terminal,
  { printsBody, now }: { printsBody: boolean; now: () => Date },
) {
  return (report: DeliveryReport): void => {
    if (isJson === true) return print(JSON.stringify(asObject(report, printsBody, now())));
    const { message, opened } = report;
    print(`${time(now())}  ${eventOf(message)}  ${message.event_id}  ${resultOf(report)}`);
    if (printsBody && typeof opened !== 'string') print(JSON.stringify(contentOf(opened), null, 2));
    return undefined;
  };
}

type Message = {
  delivery_id: number;
  event_id: number;
  headers: Headers;
  body: Uint8Array;
  /** The address to which the result is sent. */
  answer: string;
};

function readMessage(data: string): Message {
  const { body, ...rest } = JSON.parse(data) as Omit<Message, 'body'> & { body: string };
  return { ...rest, body: Buffer.from(body, 'base64') };
}

const EVENT = /^.+-webhook-event$/i;

/** Returns the name of the event; it is not verified. */
function eventOf({ headers }: Message): string {
  return Object.entries(headers).find(([name]) => EVENT.test(name))?.[1] ?? 'unknown';
}

/** Returns the verified and decrypted delivery, or a sentence that describes the failure. */
async function openMessage({ headers, body }: Message, key: string): Promise<Delivery | string> {
  try {
    return await verifyDelivery({ headers, body, keys: [key], headerPrefix: prefixIn(headers) });
  } catch (error) {
    if (error instanceof WebhookError) return error.message;
    throw error;
  }
}

// Forwards a delivery to the app on this computer with the headers and bytes that Halcyon would have sent.

type Headers = Readonly<Record<string, string>>;

/** The result in the form of an attempt of the API; `response_code` is null without a response. */
type Forwarded = {
  response_code: number | null;
  /** Whole milliseconds. */
  duration: number;
  outcome?: string;
  response_headers?: string;
  response_body?: string;
};

/** The limits of an exchange between Halcyon and an endpoint. */
const TIME_OUT_MS = 30_000;
const READ_BYTES = 64 * 1024;
const KEPT_BYTES = 16 * 1024;

/** Headers of a single connection (RFC 9110 §7.6.1), which are not forwarded. */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

const endToEnd = (headers: Headers): Headers =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name.toLowerCase())));

const UNREACHABLE: Readonly<Record<string, string>> = {
  ENOTFOUND: 'unreachable:dns',
  EAI_AGAIN: 'unreachable:dns',
  ECONNRESET: 'unreachable:reset',
  EPIPE: 'unreachable:reset',
};

function outcomeOf(error: NodeJS.ErrnoException): string {
  const { code = '' } = error;
  if (code.startsWith('HPE_')) return 'malformed';
  if (/CERT|TLS|SSL/.test(code)) return 'unreachable:tls';
  return UNREACHABLE[code] ?? 'unreachable:connect';
}

const linesOf = ({ rawHeaders }: IncomingMessage): string =>
  rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1] ?? ''}`] : [])).join('\n');

function sendRequest(address: URL, headers: Headers, body: Uint8Array, signal: AbortSignal): Promise<IncomingMessage> {
  const request = address.protocol === 'https:' ? requestHttps : requestHttp;
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  // A new connection each, so that a restart of the app between two deliveries breaks none.
  request(address, { method: 'POST', headers: { ...headers, 'content-length': body.length }, agent: false, signal })
    .on('response', resolve)
    .on('error', reject)
    .end(body);
  return promise;
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const kept: Buffer[] = [];
  let readBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    kept.push(chunk);
    readBytes += chunk.length;
    if (readBytes >= READ_BYTES) break;
  }
  return Buffer.concat(kept).subarray(0, KEPT_BYTES).toString().replaceAll('\0', '');
}

/** Returns the response or the failure of a forwarded delivery; throws if `stop` is aborted. Redirects are not followed. */
async function forward(
  address: URL,
  { headers, body }: { headers: Headers; body: Uint8Array },
  { stop, nowMs }: { stop: AbortSignal; nowMs: () => number },
): Promise<Forwarded> {
  const startedMs = nowMs();
  const timeout = AbortSignal.timeout(TIME_OUT_MS);
  const duration = () => Math.round(nowMs() - startedMs);
  let response: IncomingMessage | undefined;
  try {
    response = await sendRequest(address, endToEnd(headers), body, AbortSignal.any([stop, timeout]));
    const text = await bodyOf(response);
    const response_code = response.statusCode ?? null;
    return { response_code, duration: duration(), response_headers: linesOf(response), response_body: text };
  } catch (error) {
    stop.throwIfAborted();
    const phase = response === undefined ? 'answer' : 'body';
    const outcome = timeout.aborted ? `timed_out:${phase}` : outcomeOf(error as NodeJS.ErrnoException);
    return { response_code: null, duration: duration(), outcome };
  }
}

// Processes the stream.

/** Larger than any delivery, whose body has at most 1 MiB; limits the memory for an event without an end. */
const EVENT_CHARACTERS_MAX = 8 * 1024 * 1024;

const SILENT = 'the connection is silent';

/** Reads once; throws on a time-out. Time counts only during a read, so a slow app does not look like a silent connection. */
async function readWithin<T>(read: () => Promise<T>, silenceMs: number): Promise<T> {
  const { promise: silent, reject } = Promise.withResolvers<never>();
  using _timer = setTimeout(() => reject(new Error(SILENT)), silenceMs);
  return await Promise.race([read(), silent]);
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
  using timer = setTimeout(() => timeout.abort(new UserError('no response in time', EXIT.unreachable)), ANSWER_MS);
  const signal = AbortSignal.any([stop, timeout.signal]);
  const response = await api.open(address, { headers: { Accept: 'text/event-stream' }, signal });
  const { status } = response;
  if (status === 200 && response.body !== null) {
    clearTimeout(timer);
    yield 'open';
    yield* eventsIn(response.body, SILENCE_MS);
    return;
  }
  const reason = reasonOf({ status, json: objectIn(await textOf(response, DOCUMENT_BYTES_MAX).catch(() => '')) });
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
