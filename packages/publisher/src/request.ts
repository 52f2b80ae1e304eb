/** Sends one request with events and an access token, and repeats it with the same idempotency key until there is a response or the deadline. */
import { retryAfterMs } from './retry-after.ts';
import { type Fault, type PublishErrorCode, PublishError } from './error.ts';
import type { QueuedEvent } from './queue.ts';

/** Time and randomness of a publisher; tests pass their own. */
export type Clock = {
  /** A time that only increases. */
  nowMs: () => number;
  /** Resolves after the time, or when the signal is aborted. */
  wait: (ms: number, signal: AbortSignal) => Promise<void>;
  /** Returns a number from 0 to below 1. */
  random: () => number;
};

export const systemClock: Clock = {
  nowMs: () => performance.now(),
  wait: (ms, signal) =>
    new Promise((resolve) => {
      if (signal.aborted) return resolve();
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, ms);
      signal.addEventListener('abort', end);
    }),
  random: Math.random,
};

/** `temporary`: the request can be repeated, after at least `waitMs`. `isUnknown`: the server may have acted on the request. */
type Answer =
  | { kind: 'response'; status: number; text: string }
  | { kind: 'temporary'; problem: string; waitMs: number; isUnknown: boolean };

type Connection = {
  /** The address of the API without a trailing slash. */
  baseUrl: string;
  versionHeader: string;
  requestTimeoutMs: number;
  fetch: typeof fetch;
  clock: Clock;
  /** The publisher aborts it when it is closed without waiting. */
  stop: AbortSignal;
};

/** Every 5xx is temporary as well: requests with events have idempotency keys, so a repetition publishes nothing twice. */
const TEMPORARY: ReadonlySet<number> = new Set([408, 425, 429]);
const isTemporary = (status: number): boolean => status >= 500 || TEMPORARY.has(status);

/** Returns the innermost reason: fetch reports every network failure as "fetch failed" with a cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  if (cause instanceof Error) return reasonOf(cause);
  const { code } = error as { code?: unknown };
  return error.message || (typeof code === 'string' ? code : error.name);
}

/** Codes of a connection that was not opened. */
const NOT_SENT: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** Returns whether the server may have got the request. */
function maybeSent(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  return !NOT_SENT.has(code) && (cause === undefined || maybeSent(cause));
}

/** No response of Halcyon has more. */
const RESPONSE_BYTES_MAX = 8 * 1024 * 1024;

/** The text instead of a longer response, whose beginning may be JSON. */
const LONG_RESPONSE = '(a response of more than 8 MiB)';

/** Returns the body of a response, or `LONG_RESPONSE`. */
async function textOf({ body }: Response): Promise<string> {
  const decoder = new TextDecoder();
  let [text, bytes] = ['', 0];
  // Leaving the loop cancels the body.
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > RESPONSE_BYTES_MAX) return LONG_RESPONSE;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

async function exchange(
  { baseUrl, versionHeader, requestTimeoutMs, fetch: send, stop }: Connection,
  path: string,
  { headers, body }: { headers: Record<string, string>; body: string | URLSearchParams },
): Promise<Answer> {
  const abort = new AbortController();
  const onStop = () => abort.abort(stop.reason);
  const timer = setTimeout(() => abort.abort(new Error(`no response within ${requestTimeoutMs} ms`)), requestTimeoutMs);
  stop.addEventListener('abort', onStop);
  try {
    const response = await send(baseUrl + path, {
      method: 'POST',
      headers: { Accept: 'application/json', [versionHeader]: '1', ...headers },
      body,
      signal: abort.signal,
      // A redirect would make the POST a GET, or send the secret to another server.
      redirect: 'manual',
    });
    const text = await textOf(response);
    const { status } = response;
    if (!isTemporary(status)) return { kind: 'response', status, text };
    const waitMs = retryAfterMs(response.headers.get('Retry-After'), Date.now());
    // A 429 is sent before the body is read.
    return { kind: 'temporary', problem: `the server responds with ${status}`, waitMs, isUnknown: status !== 429 };
  } catch (error) {
    return { kind: 'temporary', problem: `no response: ${reasonOf(error)}`, waitMs: 0, isUnknown: maybeSent(error) };
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', onStop);
  }
}

/** Returns the JSON object of a response; an empty one for another text. */
export function objectIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export type Credentials = { clientId: string; clientSecret: string };

/** A token, or the temporary or permanent failure to get one. */
type Access =
  | { kind: 'token'; token: string }
  | { kind: 'refused'; code: PublishErrorCode; status: number; message: string; faults: readonly Fault[] }
  | Extract<Answer, { kind: 'temporary' }>;

type Tokens = {
  /** Returns the token; requests a new one before the old one expires. */
  current: () => Promise<Access>;
  /** Removes a token that the server does not accept. */
  forget: (token: string) => void;
};

/** A token is renewed when a tenth of its lifetime is left. */
const RENEWED_AFTER = 0.9;

/** Gets tokens with the scope `platform` by client credentials (RFC 6749 §4.4); concurrent callers share one request. */
function createTokens(connection: Connection, { clientId, clientSecret }: Credentials): Tokens {
  const { clock } = connection;
  let current: { token: string; renewMs: number } | undefined;
  let pending: Promise<Access> | undefined;
  const request = async (): Promise<Access> => {
    const form = { grant_type: 'client_credentials', scope: 'platform' };
    const body = new URLSearchParams({ ...form, client_id: clientId, client_secret: clientSecret });
    const requestedMs = clock.nowMs();
    const answer = await exchange(connection, '/token', { headers: {}, body });
    if (answer.kind === 'temporary') return { ...answer, problem: `no token: ${answer.problem}`, isUnknown: false };
    const { status } = answer;
    const { access_token: token, expires_in: seconds, error, error_description: description } = objectIn(answer.text);
    if (status !== 200 || typeof token !== 'string') {
      const reasons = [error, description].filter((one) => typeof one === 'string');
      const code = status === 400 || status === 401 || status === 403 ? 'unauthorized' : 'unexpected';
      const advice = 'check baseUrl, clientId and clientSecret, and that the client is trusted';
      const message = `No token for the client ${clientId}: ${status} ${reasons.join(': ')}; ${advice}`;
      const [first] = reasons;
      const faults = first === undefined ? [] : [{ code: first, message: reasons.at(-1) ?? first }];
      return { kind: 'refused', code, status, message, faults };
    }
    const lifeMs = typeof seconds === 'number' ? seconds * 1000 : Infinity;
    current = { token, renewMs: requestedMs + lifeMs * RENEWED_AFTER };
    return { kind: 'token', token };
  };
  return {
    current: async () => {
      if (current !== undefined && clock.nowMs() < current.renewMs) return { kind: 'token', token: current.token };
      pending ??= request().finally(() => (pending = undefined));
      return pending;
    },
    forget: (token) => {
      if (current?.token === token) current = undefined;
    },
  };
}

const FIRST_WAIT_MS = 200;
const LONGEST_WAIT_MS = 10_000;

/** `mayBePublished`: an earlier attempt may have published the events. */
export type Received = Extract<Answer, { kind: 'response' }> & { mayBePublished: boolean };

/** Returns the response for events of one store; throws a `PublishError` without one. */
export type Request = (events: readonly QueuedEvent[]) => Promise<Received>;

/** Returns an exponential backoff with 50 % jitter, so that publishers that were disconnected together do not retry together. */
function backoffMs(tries: number, random: number): number {
  const mostMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** tries);
  return mostMs / 2 + (mostMs / 2) * random;
}

/**
 * Where items are sent. `path`: below the store. `sendsLines`: the body is lines of JSON and no array; each has a result of its own and can
 * be repeated, so the request needs no idempotency key. `example`: an item.
 */
export type Target = { path: string; sendsLines: boolean; example: string };

/** JSON text may contain line breaks between its members only: within a string they are escaped. */
const oneLine = (text: string): string => text.replaceAll(/[\r\n]+/g, ' ');

type RequestOptions = { connection: Connection; credentials: Credentials; deadlineMs: number; target: Target };

export function createRequest({ connection, credentials, deadlineMs, target }: RequestOptions): Request {
  const tokens = createTokens(connection, credentials);
  const { clock, stop } = connection;

  const attempt = async (path: string, key: string | undefined, body: string) => {
    const access = await tokens.current();
    if (access.kind !== 'token') return { answer: access, token: '' };
    const headers = {
      'Content-Type': target.sendsLines ? 'application/x-ndjson' : 'application/json',
      Authorization: `Bearer ${access.token}`,
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    };
    return { answer: await exchange(connection, path, { headers, body }), token: access.token };
  };

  return async (events) => {
    const [first, newest] = [events[0], events.at(-1)];
    if (first === undefined || newest === undefined) throw new TypeError('A batch has at least one event');
    const untilMs = newest.queuedMs + deadlineMs;
    const path = `/stores/${first.storeId}/${target.path}`;
    // Each event has a key, or the request has one.
    const key = !target.sendsLines && first.key === undefined ? crypto.randomUUID() : undefined;
    const texts = events.map(({ text }) => text);
    const body = target.sendsLines ? texts.map(oneLine).join('\n') : `[${texts.join(',')}]`;
    let [mayBePublished, isRenewed, tries] = [false, false, 0];
    let problem = 'the events before it took as long';
    for (;;) {
      if (stop.aborted) throw new PublishError('closed', 'The publisher was closed', { mayBePublished });
      if (clock.nowMs() >= untilMs) break;
      const { answer, token } = await attempt(path, key, body);
      if (answer.kind === 'refused') {
        const { code, message, status, faults } = answer;
        throw new PublishError(code, message, { status, faults, mayBePublished });
      }
      if (answer.kind === 'response') {
        if (answer.status !== 401 || isRenewed) return { ...answer, mayBePublished };
        tokens.forget(token);
        isRenewed = true;
        continue;
      }
      mayBePublished ||= answer.isUnknown;
      problem = answer.problem;
      isRenewed = false;
      const waitMs = answer.waitMs + backoffMs(tries, clock.random());
      if (clock.nowMs() + waitMs >= untilMs) break;
      tries += 1;
      await clock.wait(waitMs, stop);
    }
    throw new PublishError('unavailable', `Not published within ${deadlineMs} ms: ${problem}`, { mayBePublished });
  };
}
