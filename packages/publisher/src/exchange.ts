/** Sends one POST, and decides whether its failure is temporary. */
import type { Clock } from './clock.ts';
import { retryAfterMs } from './retry-after.ts';

/** `temporary`: the request can be repeated, after at least `waitMs`. `isUnknown`: the server may have acted on the request. */
export type Answer =
  | { kind: 'response'; status: number; text: string }
  | { kind: 'temporary'; problem: string; waitMs: number; isUnknown: boolean };

export type Connection = {
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

export async function exchange(
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
