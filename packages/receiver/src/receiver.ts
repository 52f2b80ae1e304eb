/**
 * Receives deliveries of Halcyon. It uses WebCrypto alone, so it runs in Node from 20, Deno, Bun, browsers and edge workers, and
 * WebCrypto compares signatures in constant time. A delivery has two signatures of HMAC-SHA256, or one of Ed25519. What travelled over
 * plain http is JWE compact serialization (RFC 7516 §7.1), `dir` and `A256GCM` (RFC 7518 §4.5, §5.3).
 */
import { joined, utf8, type Bytes, fromBase64, fromHex } from './bytes.ts';
import { WebhookError } from './error.ts';

// The package's only entry point; applications import it by the package's name.
export { WebhookError, type WebhookErrorCode } from './error.ts';
export type * from './payloads.ts';

export type Arrival = {
  headers: HeadersLike;
  /** As it arrived, before anything parsed it: the signatures are over these bytes. */
  body: Uint8Array | ArrayBuffer | string;
  /**
   * The `encryption_key` of the webhook, or its `public_key` if that is an Ed25519 key; during a rotation the old and the new one. What is
   * undefined or '' is passed over.
   */
  keys: readonly (string | undefined)[];
  /** What the operator set as `WEBHOOK_HEADER_PREFIX`; `Service` unless said. */
  headerPrefix?: string | undefined;
  /** How far `webhook-timestamp` may lie from now, in the past and in the future; 300 unless said. */
  toleranceSeconds?: number | undefined;
  /** The clock, for tests; the machine's unless said. */
  now?: (() => Date) | undefined;
};

/**
 * The signature covers `id`, `timestamp` and `body`. The other members come from headers without a signature: https protects them on
 * the way, with plain http trust the body alone.
 */
export type Delivery = {
  /** The same in every attempt of one event at one webhook: drop what you have seen. */
  id: string;
  /** `<resource>/<action>`, such as `transaction/created`. */
  event: string;
  /** When this attempt was sent. */
  timestamp: Date;
  storeId: number;
  storeDomain: string;
  /** 1 for the first. */
  attempt: number;
  /** Rises with each version of the resource: a lower one than you have is old. */
  resourceVersion: number;
  /** Whether it was resent by hand. */
  isRefeed: boolean;
  /** Whether it is a test delivery: its event is a sample, which never happened. Part of the signed `id`. */
  isTest: boolean;
  /** Of `body`: after decryption what was inside. */
  contentType: string;
  body: Uint8Array;
  /** The body as JSON; throws a `SyntaxError` where it is none. */
  json: () => unknown;
};

const TOLERANCE_SECONDS = 300;
const ENCRYPTED_TYPE = 'application/jose';
/** The header Webhook-Test says the same, but no signature covers it. */
const TEST_PREFIX = 'msg_test_';

/** A copy: what is verified stays what is returned, whatever else is done with the buffer meanwhile. */
function bytesOf(body: Arrival['body']): Bytes {
  if (typeof body === 'string') return utf8(body);
  // instanceof denies the bytes of another realm, which test runners have.
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice();
  if (body instanceof ArrayBuffer) return new Uint8Array(body).slice();
  throw new WebhookError('not_raw', 'The body was parsed already: hand over the bytes as they arrived.');
}

function keysOf(keys: Arrival['keys']): string[] {
  const given = keys.flatMap((key) => key || []);
  if (given.length === 0) throw new WebhookError('no_key', 'No key was given: is the encryption_key set?');
  return given;
}

function checkAge(sentAt: number, now: Date, toleranceSeconds: number): void {
  const ageSeconds = Math.floor(now.getTime() / 1000) - sentAt;
  // Written so that a clock or a tolerance that is NaN refuses.
  if (Math.abs(ageSeconds) <= toleranceSeconds) return;
  const code = ageSeconds < 0 ? 'too_new' : 'too_old';
  const when = ageSeconds < 0 ? 'in the future' : 'ago';
  throw new WebhookError(code, `It was sent ${Math.abs(ageSeconds)} seconds ${when}. Is the clock right here?`);
}

/**
 * Verifies the signatures and the age, and decrypts. Throws a `WebhookError` where something is wrong with the delivery, or
 * with what it is verified with: its `status` is what to answer.
 */
export async function verifyDelivery(arrival: Arrival): Promise<Delivery> {
  const { headerPrefix = 'Service', toleranceSeconds = TOLERANCE_SECONDS, now = () => new Date() } = arrival;
  const [sent, keys] = [bytesOf(arrival.body), keysOf(arrival.keys)];
  const { text, required, number } = readerOf(arrival.headers);
  const named = (name: string): string => `${headerPrefix}-${name}`;

  const [id, timestamp] = [required('webhook-id'), required('webhook-timestamp')];
  const signatures = required('webhook-signature');
  const signed = joined(utf8(`${id}.${timestamp}.`), sent);
  const secrets = keys.filter((key) => !isPublic(key));
  const next = text(named('Webhook-Signature-Next'));
  // An Ed25519 key makes no such signature: neither as the only key, nor as the old one of a rotation.
  const isNeeded = secrets.length === keys.length && next === undefined;
  const first = isNeeded ? required(named('Webhook-Signature')) : text(named('Webhook-Signature'));
  const hex = [first, next].flatMap(hexSignatures);
  const isGenuine =
    (await isSignedBy(signed, keys.flatMap(publicKeys), asymmetricSignatures(signatures))) ||
    ((await isSigned(signed, secrets.map(standardKey), standardSignatures(signatures))) &&
      (await isSigned(sent, secrets.map(utf8), hex)));
  if (!isGenuine) {
    throw new WebhookError('bad_signature', 'No key fits. Is it the key of this webhook, and is the body raw?');
  }
  // After the signature, because before it the time is what anybody writes there.
  checkAge(number('webhook-timestamp'), now(), toleranceSeconds);

  const contentType = text('content-type') ?? '';
  const isEncrypted = contentType.split(';', 1)[0]?.trim().toLowerCase() === ENCRYPTED_TYPE;
  const { body, ...content } = isEncrypted ? await decrypted(sent, secrets) : { contentType, body: sent };
  return {
    id,
    event: required(named('Webhook-Event')),
    timestamp: new Date(Number(timestamp) * 1000),
    storeId: number(named('Store-ID')),
    storeDomain: required(named('Store-Domain')),
    attempt: number(named('Webhook-Attempt')),
    resourceVersion: number(named('Webhook-Resource-Version')),
    isRefeed: required(named('Webhook-Refeed')) === 'true',
    isTest: id.startsWith(TEST_PREFIX),
    ...content,
    body,
    json: () => JSON.parse(new TextDecoder().decode(body)) as unknown,
  };
}

/** `Headers` of the fetch standard, or an object such as Node's `request.headers`. */
export type HeadersLike =
  | { get: (name: string) => string | null }
  | { readonly [name: string]: string | readonly string[] | undefined };

const isFetch = (headers: HeadersLike): headers is { get: (name: string) => string | null } =>
  typeof headers['get' as keyof HeadersLike] === 'function';

type HeaderReader = {
  text: (name: string) => string | undefined;
  /** Throws a `WebhookError` where the header is not there. */
  required: (name: string) => string;
  /** A count or an id, which are all whole and below 2^53. */
  number: (name: string) => number;
};

const WHOLE = /^\d{1,16}$/;

/** Names are compared in lower case, because some gateways hand objects on with the names as they were sent. */
function readerOf(headers: HeadersLike): HeaderReader {
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

const HMAC = { name: 'HMAC', hash: 'SHA-256' } as const;
const SECRET_PREFIX = 'whsec_';
/** During a rotation there are two. Each costs a hash of the body, so a header full of them would cost an attacker nothing and the receiver much. */
const SIGNATURES_READ = 8;

/** Standard Webhooks 1.0, "Signature scheme": the decoded bytes of `whsec_` + base64 with its padding; any other key is its own UTF-8 bytes. */
function standardKey(key: string): Bytes {
  const encoded = key.startsWith(SECRET_PREFIX) ? key.slice(SECRET_PREFIX.length) : '';
  try {
    if (encoded !== '' && btoa(atob(encoded)) === encoded) return fromBase64(encoded);
  } catch {
    // The text is not base64.
  }
  return utf8(key);
}

/**
 * The signatures of the header, which are separated by blanks; those of other versions than `v1` are passed over. The last
 * digit may be only one whose unused bits are zero: there is one way to write each signature, and no other is taken.
 */
function standardSignatures(header: string): Bytes[] {
  return header
    .split(' ')
    .slice(0, SIGNATURES_READ)
    .flatMap((part) => /^v1,([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)$/.exec(part)?.[1] ?? [])
    .map(fromBase64);
}

/** The Ed25519 signatures of the header, which begin with `v1a`. */
function asymmetricSignatures(header: string): Bytes[] {
  return header
    .split(' ')
    .slice(0, SIGNATURES_READ)
    .flatMap((part) => /^v1a,([A-Za-z0-9+/]{85}[AQgw]==)$/.exec(part)?.[1] ?? [])
    .map(fromBase64);
}

const PUBLIC_PREFIX = 'whpk_';

/** A public key is known to everyone, so even one that is cut off, quoted or capitalised must not verify as a secret. */
function isPublic(key: string): boolean {
  return /^["'\s]*whpk_/i.test(key);
}

/** The 32 bytes of `whpk_` + base64; none of another text. */
function publicKeys(key: string): Bytes[] {
  const encoded = key.startsWith(PUBLIC_PREFIX) ? key.slice(PUBLIC_PREFIX.length) : '';
  return /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(encoded) ? [fromBase64(encoded)] : [];
}

/** One header, one signature: 64 lower-case digits, or none. */
function hexSignatures(header: string | undefined): Bytes[] {
  return header !== undefined && /^[0-9a-f]{64}$/.test(header) ? [fromHex(header)] : [];
}

/** Returns whether one of the Ed25519 signatures was made with the private key of one of the public keys. */
async function isSignedBy(text: Bytes, keys: readonly Bytes[], signatures: readonly Bytes[]): Promise<boolean> {
  for (const key of signatures.length === 0 ? [] : keys) {
    const imported = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']);
    for (const signature of signatures) {
      if (await crypto.subtle.verify('Ed25519', imported, signature, text)) return true;
    }
  }
  return false;
}

/** Returns whether one of the signatures was made with one of the keys. `verify` of WebCrypto compares in constant time. */
async function isSigned(text: Bytes, keys: readonly Bytes[], signatures: readonly Bytes[]): Promise<boolean> {
  for (const key of keys) {
    const imported = await crypto.subtle.importKey('raw', key, HMAC, false, ['verify']);
    for (const signature of signatures) {
      if (await crypto.subtle.verify('HMAC', imported, signature, text)) return true;
    }
  }
  return false;
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

const refused = (what: string): WebhookError =>
  new WebhookError('not_decrypted', `The body cannot be decrypted: ${what}.`);

function fromBase64url(text: string): Bytes {
  if (!/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) throw refused('a part of it is no base64url');
  return fromBase64(text.replaceAll('-', '+').replaceAll('_', '/'));
}

const textOf = (bytes: Bytes): string => new TextDecoder().decode(bytes);

function headOf(part: string): Record<string, unknown> {
  try {
    return { ...(JSON.parse(textOf(fromBase64url(part))) as object) };
  } catch {
    throw refused('its head is no JSON');
  }
}

/** One algorithm: if the sender could choose among several, so could an attacker (RFC 8725 §3.1). */
function checkHeader({ alg, enc, zip, crit }: Record<string, unknown>): void {
  if (alg !== 'dir' || enc !== 'A256GCM') throw refused('only alg dir with enc A256GCM is known here');
  if (zip !== undefined || crit !== undefined) throw refused('zip and crit are not known here');
}

/** Tries each key. `contentType` is what `cty` names, which goes without `application/` (RFC 7516 §4.1.12). */
async function decrypted(message: Bytes, keys: readonly string[]): Promise<{ contentType: string; body: Bytes }> {
  const parts = textOf(message).split('.');
  const [head = '', wrappedKey, nonce = '', text = '', tag = ''] = parts;
  if (parts.length !== 5 || wrappedKey !== '') throw refused('it is no compact JWE with a direct key');
  const { cty, ...rest } = headOf(head);
  checkHeader(rest);
  const [iv, end] = [fromBase64url(nonce), fromBase64url(tag)];
  if (iv.length !== NONCE_BYTES || end.length !== TAG_BYTES) throw refused('nonce or tag have another length');
  const sealed = joined(fromBase64url(text), end);
  for (const key of keys) {
    const hash = await crypto.subtle.digest('SHA-256', utf8(key));
    const imported = await crypto.subtle.importKey('raw', hash, 'AES-GCM', false, ['decrypt']);
    const algorithm = { name: 'AES-GCM', iv, additionalData: utf8(head) };
    // Another key, or changed bytes; WebCrypto does not report which.
    const opened = await crypto.subtle.decrypt(algorithm, imported, sealed).catch(() => undefined);
    if (opened === undefined) continue;
    const type = typeof cty === 'string' ? cty : 'octet-stream';
    return { contentType: type.includes('/') ? type : `application/${type}`, body: new Uint8Array(opened) };
  }
  throw refused('none of the keys opens it');
}

/**
 * Returns the headers of a 204 that allows deliveries, or undefined: then respond with 405, or as you respond to other OPTIONS
 * requests. `allowedOrigin` is the host name of the service that may send, or `*` (CloudEvents, "HTTP 1.1 Web Hooks for Event
 * Delivery", section 4).
 */
export function handshakeHeaders(asked: {
  headers: HeadersLike;
  allowedOrigin: string | undefined;
}): Record<string, string> | undefined {
  const origin = readerOf(asked.headers).text('webhook-request-origin') ?? '';
  const { allowedOrigin = '' } = asked;
  if (origin === '' || allowedOrigin === '') return undefined;
  if (allowedOrigin !== '*' && origin.toLowerCase() !== allowedOrigin.toLowerCase()) return undefined;
  return { Allow: 'POST', 'WebHook-Allowed-Origin': allowedOrigin, 'WebHook-Allowed-Rate': '*' };
}

const REMEMBERED = 10_000;

/**
 * Returns a function that returns whether an id is new among the last `limit` ids that it got. They are in the memory of one process: where
 * an event must not count twice after a restart either, store the ids with what your receiver stores of the event.
 */
export function rememberIds(limit: number = REMEMBERED): (id: string) => boolean {
  const seen = new Set<string>();
  return (id) => {
    if (seen.has(id)) return false;
    seen.add(id);
    const [oldest] = seen;
    if (seen.size > limit && oldest !== undefined) seen.delete(oldest);
    return true;
  };
}
