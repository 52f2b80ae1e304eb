/**
 * What a change keeps of the secrets of a webhook. Readers who are not shown them keep those of the request by sending back what they
 * are shown, and cannot have any sent to another origin (docs/security.md, "Secrets").
 */
import { isDeepStrictEqual } from 'node:util';
import type { Fault } from '#core/problem.ts';
import { hasHiddenValue, withHiddenQuery, type Addressed, type Headers } from '#core/request-secrets.ts';
import { URL_LENGTH_MAX } from './schema.ts';
import type { Draft, Settings, Wish } from './webhook.ts';

/** `isShown`: the reader is shown the secrets of `stored`. */
type Present = { stored: Addressed; isShown: boolean };

/** An empty value is what forms and XML make of null; from a reader who is shown the values it is a value. */
const isGiven = (value: string | null, isShown: boolean): boolean => value !== null && (isShown || value !== '');

/** Returns the stored value of the header, whose name has no case (RFC 9110 §5.1); null where there is none. */
const storedValue = ({ headers }: Addressed, name: string): string | null =>
  Object.entries(headers).find(([stored]) => stored.toLowerCase() === name.toLowerCase())?.[1] ?? null;

const keptHeaders = (headers: Headers, { stored, isShown }: Present): Headers =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      isGiven(value, isShown) ? value : (storedValue(stored, name) ?? value),
    ]),
  );

/** Returns the input with stored values in place of those that it keeps. */
export const withKept = (wish: Wish, present: Present): Wish => {
  const { stored, isShown } = present;
  const keepsUrl =
    !isShown && wish.url != null && stored.url !== null && wish.url === withHiddenQuery(stored.url, URL_LENGTH_MAX);
  return {
    ...wish,
    ...(keepsUrl && { url: stored.url }),
    ...(wish.headers && { headers: keptHeaders(wish.headers, present) }),
  };
};

export const isSameRequest = (a: Addressed, b: Addressed): boolean =>
  a.url === b.url && isDeepStrictEqual(a.headers, b.headers);

/** Returns a fault for each header that has no value after the change: it is not there to be kept, or cannot be opened any more. */
export const valueFaults = (after: Addressed, stored: Addressed): Fault[] => {
  if (isSameRequest(after, stored)) return [];
  const missing = Object.keys(after.headers).filter((name) => after.headers[name] === null);
  return missing.map((name) => ({
    code: 'required',
    message: `headers.${name} is required: the webhook has no value of this header that could be kept`,
    field: `headers.${name}`,
  }));
};

const originOf = (url: string | null): string | undefined => (url === null ? undefined : new URL(url).origin);

/**
 * Whether a change sends the key to where it did not go before: in the format that carries it in a header, to another origin.
 * A reader who cannot see the key must not learn it this way, and sends another one.
 */
export const revealsKey = (before: Pick<Settings, 'format' | 'url'>, after: Pick<Draft, 'format' | 'url'>): boolean =>
  after.format === 'partner_sitebuilder' &&
  after.url !== null &&
  (before.format !== after.format || originOf(before.url) !== originOf(after.url));

export const NEEDS_KEY: Fault = {
  code: 'required',
  message:
    'encryption_key is required: this change would send the key that is there to another place, and you may not see it. Send the key that your endpoint expects',
  field: 'encryption_key',
};

const NEEDS_HEADERS: Fault = {
  code: 'required',
  message:
    'headers is required: this change would send the values that are there to another origin, and you may not see them. Send all values again, or leave the headers out by {}',
  field: 'headers',
};

const HIDDEN_QUERY: Fault = {
  code: 'invalid_value',
  message:
    'url has hidden values, which are kept only where the url is sent back exactly as it is shown. Send the values, or leave the query out',
  field: 'url',
};

/** Returns what keeps a reader who is not shown the secrets from sending them elsewhere. `sent` is the input as it came. */
export const redirectFaults = (sent: Wish, after: Addressed, { stored, isShown }: Present): Fault[] => {
  if (isShown) return [];
  const isMoved = after.url !== null && originOf(after.url) !== originOf(stored.url);
  const keepsValue = Object.keys(after.headers).some((name) => !isGiven(sent.headers?.[name] ?? null, isShown));
  const keepsQuery = after.url !== stored.url && sent.url != null && hasHiddenValue(sent.url);
  return [...(isMoved && keepsValue ? [NEEDS_HEADERS] : []), ...(keepsQuery ? [HIDDEN_QUERY] : [])];
};
