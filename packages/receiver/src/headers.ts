import { WebhookError } from './error.ts';

/** `Headers` of the fetch standard, or an object such as Node's `request.headers`. */
export type HeadersLike =
  | { get: (name: string) => string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

const isFetch = (headers: HeadersLike): headers is { get: (name: string) => string | null } =>
  typeof headers['get' as keyof HeadersLike] === 'function';

export type HeaderReader = {
  text: (name: string) => string | undefined;
  /** Throws a `WebhookError` where the header is not there. */
  required: (name: string) => string;
  /** A count or an id, which are all whole and below 2^53. */
  number: (name: string) => number;
};

const WHOLE = /^\d{1,16}$/;

/** Names are compared in lower case, because some gateways hand objects on with the names as they were sent. */
export function readerOf(headers: HeadersLike): HeaderReader {
  const text = (name: string): string | undefined => {
    if (isFetch(headers)) return headers.get(name) ?? undefined;
    const value = Object.entries(headers).find(([other]) => other.toLowerCase() === name.toLowerCase())?.[1];
    return typeof value === 'string' ? value : value?.join(', ');
  };
  const required = (name: string): string => {
    const value = text(name);
    if (value === undefined) throw new WebhookError('missing_header', `The header ${name} is missing.`);
    return value;
  };
  const number = (name: string): number => {
    const value = required(name);
    if (!WHOLE.test(value)) throw new WebhookError('bad_header', `The header ${name} is not a whole number.`);
    return Number(value);
  };
  return { text, required, number };
}
