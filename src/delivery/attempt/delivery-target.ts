/**
 * The delivery target of a webhook: its row in the form in which attempts use it, loaded once and discarded when the webhook changes, with
 * the mask of its secrets.
 */
import type { ResourceType } from '#catalog/catalog.ts';
import { storedShape, type Shape } from '#catalog/resource-document.ts';
import type { Sealer } from '#db/seal.ts';
import { isReadable } from '#core/loopback.ts';
import { withSecrets, type Headers } from '#core/request-secrets.ts';
import type { Rotating } from '#core/keys.ts';
import { formats, type FormatName } from './formats.ts';

/** How long failed deliveries are retried: for an hour, or for three days. */
export type RetryProfile = 'hour' | 'long';

/** A row of `webhook` with its store's domain and its `webhook_state`. */
export type TargetRow = Rotating<Buffer> & {
  id: number;
  /** The app whose keys these are, of a webhook that an app declares; null for other webhooks, which have their own key. */
  appOfKey: number | null;
  storeId: number;
  /** Empty if the store was erased. */
  storeDomain: string;
  epoch: number;
  revision: number;
  /** The first revision with these settings of the request and these keys. */
  requestSince: number;
  /** When the last rotation ended by time, after which only its key was valid. */
  rotatedAt: Date | null;
  isActive: boolean;
  format: FormatName;
  url: string | null;
  /** A pull webhook: it has no url and no lane. */
  isHeld: boolean;
  query: string | null;
  eventResource: ResourceType | null;
  headers: Headers;
  requestSecrets: Buffer | null;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
  isOrdered: boolean;
  consecutiveFailures: number;
  firstFailureAt: Date | null;
  /** The store was warned about its failures. */
  isWarned: boolean;
  /** It has a `webhook_state` row without failures. */
  hasSucceeded: boolean;
  pausedUntil: Date | null;
  probeAt: Date | null;
  /** An outcome requires that it is disabled, which is not done yet. */
  isPendingDisable: boolean;
};

/** A webhook that is disabled, deleted or without url. Its pending deliveries of older epochs have failed. */
type Inactive = { isActive: false; epoch: number };

/** The current key is chosen when an attempt is sent, because a target may be in memory for hours. */
export type ActiveTarget = Rotating<string> & {
  isActive: true;
  epoch: number;
  /** With the store's domain, detects a changed webhook. */
  revision: number;
  storeDomain: string;
  format: FormatName;
  url: URL;
  /** The origin of the url: the key of connection pools and quotas. */
  origin: string;
  /** The cache key of shaped bodies. */
  query: string;
  shape: Shape;
  /** Bodies are encrypted if there is a key. */
  isEncrypted: boolean;
  headers: Readonly<Record<string, string>>;
  /** Finds the secrets above in responses that repeat them. */
  mask: Mask | undefined;
  ratePerSecond: number | null;
  retryProfile: RetryProfile;
  /** A delivery waits until the earlier ones of its resource have ended. */
  isOrdered: boolean;
};

export type Target = ActiveTarget | Inactive;

/**
 * The target of an unusable row, for example if its key cannot be decrypted. Its deliveries wait, because no epoch is
 * older.
 */
export const UNUSABLE: Target = { isActive: false, epoch: Number.NEGATIVE_INFINITY };

/** Returns the target of a webhook row; `undefined` is a deleted webhook, for which every epoch is older. */
export function targetOf(row: TargetRow | undefined, sealer: Sealer): Target {
  if (row === undefined) return { isActive: false, epoch: Number.POSITIVE_INFINITY };
  if (!row.isActive || row.url === null) return { isActive: false, epoch: row.epoch };
  return activeTarget(row, sealer);
}

/** Returns the target; a pull webhook's destination is `baseUrl`. Throws if the key or the secrets of the request cannot be decrypted. */
export function activeTarget(row: TargetRow, sealer: Sealer, baseUrl = ''): ActiveTarget {
  const openBound = (sealed: Buffer | null, boundTo: string) => (sealed === null ? null : sealer.open(sealed, boundTo));
  const open = (sealed: Buffer | null) => openBound(sealed, `webhook:${row.id}`);
  const openKey = (sealed: Buffer | null) =>
    row.appOfKey === null ? open(sealed) : openBound(sealed, `app_webhook:${row.appOfKey}`);
  const request = withSecrets(row, open(row.requestSecrets));
  const url = new URL(row.isHeld ? baseUrl : (request.url ?? ''));
  const encryptionKey = openKey(row.encryptionKey);
  const nextEncryptionKey = openKey(row.nextEncryptionKey);
  return {
    isActive: true,
    epoch: row.epoch,
    revision: row.revision,
    storeDomain: row.storeDomain,
    format: row.format,
    url,
    origin: url.origin,
    query: row.query ?? '',
    shape: storedShape(row.query ?? '', row.eventResource),
    encryptionKey,
    nextEncryptionKey,
    rotationEndsAt: row.rotationEndsAt,
    isEncrypted: formats[row.format].isEncrypted && isReadable(url),
    headers: request.headers,
    mask: maskOf({ url, headers: request.headers, encryptionKey, nextEncryptionKey }),
    ratePerSecond: row.ratePerSecond,
    retryProfile: row.retryProfile,
    isOrdered: row.isOrdered,
  };
}

/** `bytesMax`: the length of the longest secret with all characters escaped. `pattern` matches texts of `unescaped`. */
export type Mask = { pattern: RegExp; bytesMax: number };

/** Shorter values are parts of ordinary words, which would be masked in every response. */
const LENGTH_MIN = 4;
const HIDDEN = '***';
/** The longest escape of one byte: `&#x000041;`. */
const ESCAPE_LENGTH_MAX = 10;

type Sent = Pick<ActiveTarget, 'url' | 'headers' | 'encryptionKey' | 'nextEncryptionKey'>;

/** Returns the secrets of the request: both keys, the query and its values, and the values of headers, also without scheme and name. */
function secretsOf({ url, headers, encryptionKey, nextEncryptionKey }: Sent): string[] {
  const query = url.search.slice(1);
  const parts = query.split('&').map((part) => part.slice(part.indexOf('=') + 1));
  const values = Object.values(headers).flatMap((value) => [value, value.slice(value.indexOf(' ') + 1)]);
  const named = values.flatMap((value) => [...value.matchAll(/=\s*"?([^\s",;]+)/g)].map(([, part = '']) => part));
  return [encryptionKey ?? '', nextEncryptionKey ?? '', query, ...parts, ...values, ...named];
}

/** One character as HTML, a URL or JSON escapes it. */
const HTML = /&(?:#x[\da-f]{1,6}|#\d{1,7}|amp|lt|gt|quot|apos);/;
const URL_ENCODED =
  /%[0-7][\da-f]|%[cd][\da-f]%[89ab][\da-f]|%e[\da-f](?:%[89ab][\da-f]){2}|%f[0-7](?:%[89ab][\da-f]){3}/;
const JSON_ESCAPED = /\\u[\da-f]{4}|\\["\\/bfnrt]/;
const allOf = (kinds: readonly RegExp[]): RegExp => new RegExp(kinds.map(({ source }) => source).join('|'), 'gi');
/** Each kind with the character that begins its escapes. */
const KINDS = [
  ['&', allOf([HTML])],
  ['%', allOf([URL_ENCODED])],
  ['\\', allOf([JSON_ESCAPED])],
] as const;
const ALL = allOf([HTML, URL_ENCODED, JSON_ESCAPED]);
const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
const CONTROLS: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };
const CODE_POINT_MAX = 0x10_ff_ff;

function characterOf(escape: string): string {
  if (escape.startsWith('%')) {
    try {
      return decodeURIComponent(escape);
    } catch {
      return escape;
    }
  }
  const [, letter = ''] = escape;
  if (escape.startsWith('\\')) return escape.length === 2 ? (CONTROLS[letter] ?? letter) : unitOf(escape.slice(2));
  const name = escape.slice(1, -1).toLowerCase();
  const code = Number(name.startsWith('#') ? name.replace('#x', '0x').replace('#', '') : NaN);
  return NAMED[name] ?? (code <= CODE_POINT_MAX ? String.fromCodePoint(code) : escape);
}

const unitOf = (hex: string): string => String.fromCharCode(Number.parseInt(hex, 16));

/** A blank of a form. */
const spaced = (text: string): string => text.replaceAll('+', ' ');

/** A text to search, and where each unit of it begins in what was written; absent if no unit moved. */
type Reading = { plain: string; starts?: readonly number[] };

/** Returns the text with each escape replaced by its character. */
function unescaped(text: string, way: RegExp): Reading {
  let plain = '';
  const starts: number[] = [];
  let at = 0;
  const take = (part: string, from: number, step: 0 | 1): void => {
    for (let unit = 0; unit < part.length; unit += 1) starts.push(from + unit * step);
    plain += part;
  };
  for (const { index, 0: escape } of text.matchAll(way)) {
    take(text.slice(at, index), at, 1);
    take(characterOf(escape), index, 0);
    at = index + escape.length;
  }
  if (at === 0) return { plain: spaced(text) };
  take(text.slice(at), at, 1);
  starts.push(text.length);
  return { plain: spaced(plain), starts };
}

/**
 * Returns the text as it is, without the escapes of each kind, because a secret may contain those of another, and without any, for
 * what was escaped twice. Most texts have no escape and are read once: 1 µs for the headers of a response, instead of 5.
 */
function readingsOf(text: string): Reading[] {
  const ways = KINDS.filter(([mark]) => text.includes(mark)).map(([, way]) => way);
  if (ways.length > 1) ways.push(ALL);
  return [{ plain: spaced(text) }, ...ways.map((way) => unescaped(text, way))];
}

/**
 * Returns the mask for responses, which is applied before they are stored: an endpoint may repeat the request, and everybody with access
 * to the store reads and searches responses. Masked only for display, a search for `response_body` would still find parts of a secret.
 * Undefined if the webhook has no secrets.
 */
export function maskOf(target: Sent): Mask | undefined {
  const secrets = secretsOf(target).filter((secret) => secret.length >= LENGTH_MIN);
  // A secret with an escape is repeated as it is, and escaped once more. The longest first: one may begin with another.
  const sought = new Set(secrets.flatMap((secret) => readingsOf(secret).map(({ plain }) => plain)));
  if (sought.size === 0) return undefined;
  const longestFirst = [...sought].toSorted((a, b) => b.length - a.length);
  return {
    pattern: new RegExp(longestFirst.map((secret) => RegExp.escape(secret)).join('|'), 'gi'),
    bytesMax: ESCAPE_LENGTH_MAX * Math.max(...secrets.map((secret) => Buffer.byteLength(secret))),
  };
}

/**
 * Returns the first `length` characters of the text with its secrets masked, however HTML, a URL or JSON escapes each character. The text
 * continues after them, if it does, for at least `bytesMax`: otherwise the part of a secret before the end would not be recognised.
 */
export function masked(text: string, { pattern }: Mask, length: number): string {
  const found = readingsOf(text).flatMap(({ plain, starts }) =>
    [...plain.matchAll(pattern)].map(({ index, 0: secret }) => {
      const end = index + secret.length;
      return { start: starts?.[index] ?? index, end: starts?.[end] ?? end };
    }),
  );
  let shown = '';
  let at = 0;
  for (const { start, end } of found.toSorted((a, b) => a.start - b.start)) {
    if (start >= length) break;
    if (start >= at && (start > at || shown === '')) shown += text.slice(at, start) + HIDDEN;
    at = Math.max(at, end);
  }
  return shown + text.slice(at, Math.max(at, length));
}
