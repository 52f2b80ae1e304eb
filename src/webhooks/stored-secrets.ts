/**
 * Rules for a change by a reader who may not see the secrets of a webhook: sending back the masked values keeps the stored ones,
 * and no change may send a stored secret to another origin (docs/security.md, "Secrets").
 */
import { isDeepStrictEqual } from 'node:util';
import type { Fault } from '#core/problem.ts';
import { hasHiddenValue, withHiddenQuery, type Addressed, type Headers } from '#core/request-secrets.ts';
import { URL_LENGTH_MAX } from './schema.ts';
import type { Draft, Settings, WebhookInput } from './webhook.ts';

/** `isVisible`: the reader may see the secrets of `stored`. */
type StoredRequest = { stored: Addressed; isVisible: boolean };

/** Forms and XML write null as an empty string, so an empty value counts only from a reader who sees the stored values. */
const hasValue = (value: string | null, isVisible: boolean): boolean => value !== null && (isVisible || value !== '');

/** Returns the stored value of the header, or null. Header names are case-insensitive (RFC 9110 §5.1). */
const storedValue = ({ headers }: Addressed, name: string): string | null =>
  Object.entries(headers).find(([stored]) => stored.toLowerCase() === name.toLowerCase())?.[1] ?? null;

const mergeHeaders = (headers: Headers, { stored, isVisible }: StoredRequest): Headers =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      hasValue(value, isVisible) ? value : (storedValue(stored, name) ?? value),
    ]),
  );

/** Returns the input with its masked values replaced by the stored ones. */
export function withStoredSecrets(input: WebhookInput, current: StoredRequest): WebhookInput {
  const { stored, isVisible } = current;
  const keepsUrl =
    !isVisible && input.url != null && stored.url !== null && input.url === withHiddenQuery(stored.url, URL_LENGTH_MAX);
  return {
    ...input,
    ...(keepsUrl && { url: stored.url }),
    ...(input.headers && { headers: mergeHeaders(input.headers, current) }),
  };
}

export function isSameRequest(a: Addressed, b: Addressed): boolean {
  return a.url === b.url && isDeepStrictEqual(a.headers, b.headers);
}

/** Returns a fault for each header without a value after the change: none is stored, or it cannot be decrypted. */
export function valueFaults(after: Addressed, stored: Addressed): Fault[] {
  if (isSameRequest(after, stored)) return [];
  const missing = Object.keys(after.headers).filter((name) => after.headers[name] === null);
  return missing.map((name) => ({
    code: 'required',
    message: `headers.${name} is required: no value of this header is stored`,
    field: `headers.${name}`,
  }));
}

const originOf = (url: string | null): string | undefined => (url === null ? undefined : new URL(url).origin);

/**
 * Returns whether a change would send the key to a new origin, in the format that sends it as a header. A reader who may not see
 * the key could learn it this way, and must send another key.
 */
export function revealsKey(before: Pick<Settings, 'format' | 'url'>, after: Pick<Draft, 'format' | 'url'>): boolean {
  return (
    after.format === 'partner_sitebuilder' &&
    after.url !== null &&
    (before.format !== after.format || originOf(before.url) !== originOf(after.url))
  );
}

export const NEEDS_KEY: Fault = {
  code: 'required',
  message:
    'encryption_key is required: this change would send the stored key, which you may not see, to another origin. Send the key that your endpoint expects',
  field: 'encryption_key',
};

const NEEDS_HEADERS: Fault = {
  code: 'required',
  message:
    'headers is required: this change would send the stored values, which you may not see, to another origin. Send all values again, or {} to remove the headers',
  field: 'headers',
};

const HIDDEN_QUERY: Fault = {
  code: 'invalid_value',
  message:
    'url contains masked values, which keep the stored ones only if the url is otherwise unchanged. Send the values, or omit the query',
  field: 'url',
};

/** Returns faults if a reader who may not see the secrets would send them to another origin. `sent`: the input as received. */
export function redirectFaults(sent: WebhookInput, after: Addressed, { stored, isVisible }: StoredRequest): Fault[] {
  if (isVisible) return [];
  const isOriginChanged = after.url !== null && originOf(after.url) !== originOf(stored.url);
  const keepsValue = Object.keys(after.headers).some((name) => !hasValue(sent.headers?.[name] ?? null, isVisible));
  const sendsHiddenQuery = after.url !== stored.url && sent.url != null && hasHiddenValue(sent.url);
  return [...(isOriginChanged && keepsValue ? [NEEDS_HEADERS] : []), ...(sendsHiddenQuery ? [HIDDEN_QUERY] : [])];
}
