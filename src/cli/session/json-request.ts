/** Sends requests to a server and reads its JSON responses. */
import { isLoopback } from '#core/loopback.ts';
import { EXIT, UserError } from '../explain.ts';

/** The time limit of one request. */
export const REQUEST_SECONDS = 30;

/** No document of the API has more. */
export const DOCUMENT_BYTES_MAX = 8 * 1024 * 1024;

export type Json = Readonly<Record<string, unknown>>;
export type RequestOptions = {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | URLSearchParams;
  /** Aborts the request. */
  signal?: AbortSignal | undefined;
};
export type JsonResponse = { status: number; json: Json };

/**
 * Returns an address that a token may be sent to, without a trailing slash. Throws a `UserError` if it is invalid or unencrypted.
 * `what` names it in messages.
 */
export function safeAddress(address: string, what: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (
    url === undefined ||
    !/^https?:$/.test(url.protocol) ||
    url.username !== '' ||
    url.search !== '' ||
    url.hash !== ''
  )
    throw new UserError(`${what} is "${address}": set it to an address such as https://api.example.com`);
  if (url.protocol === 'https:' || isLoopback(url.hostname)) return address.replace(/\/+$/, '');
  throw new UserError(`${what} is "${address}": use https, so that your access token cannot be intercepted`);
}

/** Returns the same for a typed address without a scheme: http on this computer, https otherwise. */
export function typedAddress(typed: string, what: string): string {
  if (typed.includes('://') || !URL.canParse(`http://${typed}`)) return safeAddress(typed, what);
  const scheme = isLoopback(new URL(`http://${typed}`).hostname) ? 'http' : 'https';
  return safeAddress(`${scheme}://${typed}`, what);
}

/** Returns why a fetch failed: an error code, or a message. */
export function causeOf(error: unknown): string {
  const { cause } = error as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? (error as Error).message;
}

/** Returns the error for an unreachable address; a retry may succeed. */
export function unreachable(address: string, why: string): UserError {
  const { origin } = new URL(address);
  const advice =
    why === 'ERR_SSL_WRONG_VERSION_NUMBER'
      ? 'the server speaks http, not https; use an http address with --server'
      : 'check that Halcyon runs there, or set its address with --server';
  return new UserError(`No answer from ${origin} (${why}): ${advice}`, EXIT.unreachable);
}

/** Returns the JSON object in a text, empty if there is none. */
export function objectIn(text: string): Json {
  try {
    return { ...(JSON.parse(text) as object | null) };
  } catch {
    return {};
  }
}

/** Returns the body of a response; throws a `UserError` and closes the connection if it has more than `limitBytes`. */
export async function textOf({ body, url }: Response, limitBytes: number): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop cancels the body.
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > limitBytes)
      throw new UserError(`${url} sent more than ${limitBytes / 1024 ** 2} MiB: check that a Halcyon runs there`);
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** Sends a request and returns the response with any status; throws an unreachable `UserError` without a response. */
export async function send(address: string, options: RequestOptions = {}): Promise<Response> {
  const { signal, ...rest } = options;
  try {
    // A redirect would send the token to another address.
    return await fetch(address, { ...rest, redirect: 'manual', ...(signal === undefined ? {} : { signal }) });
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(address, causeOf(error));
  }
}

/** Sends a request and returns the response with its JSON body, within 30 s; throws like `send`. */
export async function exchange(address: string, options: RequestOptions = {}): Promise<JsonResponse> {
  const { signal } = options;
  const limit = AbortSignal.timeout(REQUEST_SECONDS * 1000);
  try {
    const response = await send(address, {
      ...options,
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    });
    return { status: response.status, json: objectIn(await textOf(response, DOCUMENT_BYTES_MAX)) };
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof UserError) throw error;
    throw unreachable(address, limit.aborted ? `no response within ${REQUEST_SECONDS} s` : causeOf(error));
  }
}

/** Returns the error message of a response of the API or of OAuth. */
export function reasonOf({ status, json }: JsonResponse): string {
  const lists = Object.values((json['_embedded'] ?? {}) as Record<string, ({ message?: string } | null)[]>);
  const [message] = lists.flat().map((error) => error?.message);
  const reason = message ?? json['error_description'] ?? json['error'];
  return typeof reason === 'string' ? reason : `the server answers ${status}`;
}

/** Returns whether a retry may succeed: 408, 429 and server errors. */
export function isTemporary(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/** Returns the address of a relation with any prefix; undefined if the document has no such link. */
export function linkOf(document: Json, rel: string): string | undefined {
  const links = (document['_links'] ?? {}) as Record<string, { href?: string } | { href?: string }[]>;
  const [, found] = Object.entries(links).find(([name]) => name === rel || name.endsWith(`:${rel}`)) ?? [];
  const link = Array.isArray(found) ? found[0] : found;
  return typeof link?.href === 'string' ? link.href : undefined;
}

/** Returns the documents that are embedded under a relation. */
export function embeddedIn(document: Json, rel: string): Json[] {
  const embedded = (document['_embedded'] ?? {}) as Record<string, Json | Json[]>;
  const [, found] = Object.entries(embedded).find(([name]) => name === rel || name.endsWith(`:${rel}`)) ?? [];
  return found === undefined ? [] : Array.isArray(found) ? found : [found];
}
