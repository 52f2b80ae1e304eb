/**
 * Masks the secrets of a webhook in responses before they are stored: an endpoint may repeat the request, and everybody with access
 * to the store reads and searches responses. Masked only for display, a search for `response_body` would still find parts of a
 * secret.
 */
import type { ActiveTarget } from './target.ts';

/** `bytesMax`: the length of the longest text that `pattern` matches. */
export type Mask = { pattern: RegExp; bytesMax: number };

/** Shorter values are parts of ordinary words, which would be masked in every response. */
const LENGTH_MIN = 4;
const HIDDEN = '***';

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return text;
  }
};

/** Returns the secrets of the request: both keys, the values of headers, also without their scheme, and the query. */
function secretsOf({ url, headers, encryptionKey, nextEncryptionKey }: Sent): string[] {
  const query = url.search.slice(1);
  const parts = query.split('&').map((part) => part.slice(part.indexOf('=') + 1));
  const values = Object.values(headers).flatMap((value) => [value, value.slice(value.indexOf(' ') + 1)]);
  return [encryptionKey ?? '', nextEncryptionKey ?? '', query, ...parts, ...parts.map(decoded), ...values];
}

const DOUBLE_QUOTES = ['"', '&quot;', '&#34;'] as const;
const SINGLE_QUOTES = ["'", '&#39;', '&#039;', '&#x27;'] as const;

/** Returns the text as templates escape it for HTML. */
function inHtml(text: string): string[] {
  const escaped = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return DOUBLE_QUOTES.flatMap((double) =>
    SINGLE_QUOTES.map((single) => escaped.replaceAll('"', double).replaceAll("'", single)),
  );
}

/** Returns the text as responses repeat it: as it is, and in JSON, HTML and a URL. */
function spellingsOf(text: string): string[] {
  const json = JSON.stringify(text).slice(1, -1);
  const ascii = json.replaceAll(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return [
    text,
    ...[json, ascii].flatMap((one) => [one, one.replaceAll('/', '\\/')]),
    ...inHtml(text),
    encodeURIComponent(text.toWellFormed()),
    new URLSearchParams({ '': text }).toString().slice(1),
  ];
}

type Sent = Pick<ActiveTarget, 'url' | 'headers' | 'encryptionKey' | 'nextEncryptionKey'>;

/** Returns undefined if the webhook has no secrets. */
export function maskOf(target: Sent): Mask | undefined {
  const secrets = secretsOf(target).filter((secret) => secret.length >= LENGTH_MIN);
  // The longest first: a spelling may begin with another one.
  const spellings = [...new Set(secrets.flatMap(spellingsOf))].toSorted((a, b) => b.length - a.length);
  if (spellings.length === 0) return undefined;
  return {
    pattern: new RegExp(spellings.map((spelling) => RegExp.escape(spelling)).join('|'), 'gi'),
    bytesMax: Math.max(...spellings.map((spelling) => Buffer.byteLength(spelling))),
  };
}

/**
 * Returns the first `length` characters of the text with its secrets masked. The text continues after them, if it does, for at
 * least `bytesMax`: otherwise the part of a secret before the end would not be recognised.
 */
export function masked(text: string, { pattern }: Mask, length: number): string {
  let shown = '';
  let at = 0;
  for (const { index, 0: secret } of text.matchAll(pattern)) {
    if (index >= length) break;
    shown += text.slice(at, index) + HIDDEN;
    at = index + secret.length;
  }
  return shown + text.slice(at, Math.max(at, length));
}
