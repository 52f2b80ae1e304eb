/** One request to a server, and what its answers say, wherever a command asks. */
import { isLoopback } from '#core/loopback.ts';
import { EXIT, UserError } from '../explain.ts';

const REQUEST_MS = 30_000;

export type Json = Readonly<Record<string, unknown>>;
export type RequestOptions = {
  method?: string;
  headers?: Readonly<Record<string, string>>;
  body?: string | URLSearchParams;
  /** Ends it earlier. */
  signal?: AbortSignal | undefined;
};
export type JsonResponse = { status: number; json: Json };

/**
 * An address that a token may be sent to, without a slash at its end. Throws a `UserError` where it is none, or where others
 * could read the token on the way. `what` names it.
 */
export const safeAddress = (address: string, what: string): string => {
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
  throw new UserError(`${what} is "${address}": use https, so that nobody on the way can read what opens your store`);
};

/** The same of what a person types, who may leave out the scheme: it is http on this computer, https anywhere else. */
export const typedAddress = (typed: string, what: string): string => {
  if (typed.includes('://') || !URL.canParse(`http://${typed}`)) return safeAddress(typed, what);
  const scheme = isLoopback(new URL(`http://${typed}`).hostname) ? 'http' : 'https';
  return safeAddress(`${scheme}://${typed}`, what);
};

/** Why a fetch failed, in a word where there is one. */
export const causeOf = (error: unknown): string => {
  const { cause } = error as { cause?: { code?: string; message?: string } };
  return cause?.code ?? cause?.message ?? (error as Error).message;
};

/** An address cannot have been reached; another time it may. */
export const unreachable = (address: string, why: string): UserError => {
  const { origin } = new URL(address);
  const advice =
    why === 'ERR_SSL_WRONG_VERSION_NUMBER'
      ? 'what is there speaks http, not https; say so with --server'
      : 'see that Halcyon runs there, or say where it does with --server';
  return new UserError(`No answer from ${origin} (${why}): ${advice}`, EXIT.unreachable);
};

/** Empty where it is none. */
export const objectIn = (text: string): Json => {
  try {
    return { ...(JSON.parse(text) as object | null) };
  } catch {
    return {};
  }
};

/** Its answer, whatever it says; throws an unreachable `UserError` where there is none. */
export const send = async (address: string, asked: RequestOptions = {}): Promise<Response> => {
  const { signal, ...rest } = asked;
  try {
    // A redirect would take the token elsewhere.
    return await fetch(address, { ...rest, redirect: 'manual', ...(signal === undefined ? {} : { signal }) });
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(address, causeOf(error));
  }
};

/** The same with its whole body, within 30 s. */
export const exchange = async (address: string, asked: RequestOptions = {}): Promise<JsonResponse> => {
  const { signal } = asked;
  const limit = AbortSignal.timeout(REQUEST_MS);
  try {
    const response = await send(address, {
      ...asked,
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    });
    return { status: response.status, json: objectIn(await response.text()) };
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof UserError) throw error;
    throw unreachable(address, limit.aborted ? `${REQUEST_MS / 1000} s are over` : causeOf(error));
  }
};

/** What the answer of the API or of the protocol says is wrong. */
export const reasonOf = ({ status, json }: JsonResponse): string => {
  const lists = Object.values((json['_embedded'] ?? {}) as Record<string, ({ message?: string } | null)[]>);
  const [message] = lists.flat().map((error) => error?.message);
  const told = message ?? json['error_description'] ?? json['error'];
  return typeof told === 'string' ? told : `the server answers ${status}`;
};

/** 408, 429 and what is the server's own: another time it may go well. */
export const isTemporary = (status: number): boolean => status === 408 || status === 429 || status >= 500;

/** The address of a relation, whatever the operator's prefix is; undefined where the document does not lead there. */
export const linkOf = (document: Json, rel: string): string | undefined => {
  const links = (document['_links'] ?? {}) as Record<string, { href?: string } | { href?: string }[]>;
  const [, found] = Object.entries(links).find(([name]) => name === rel || name.endsWith(`:${rel}`)) ?? [];
  const link = Array.isArray(found) ? found[0] : found;
  return typeof link?.href === 'string' ? link.href : undefined;
};

/** The documents that are embedded under a relation. */
export const embeddedIn = (document: Json, rel: string): Json[] => {
  const embedded = (document['_embedded'] ?? {}) as Record<string, Json | Json[]>;
  const [, found] = Object.entries(embedded).find(([name]) => name === rel || name.endsWith(`:${rel}`)) ?? [];
  return found === undefined ? [] : Array.isArray(found) ? found : [found];
};
