/**
 * Receives deliveries of Halcyon. It uses WebCrypto alone, so it runs in Node from 20, Deno, Bun, browsers and edge workers, and
 * WebCrypto compares signatures in constant time.
 */
import { joined, utf8, type Bytes } from './bytes.ts';
import { decrypted } from './decrypt.ts';
import { WebhookError } from './error.ts';
import { readerOf, type HeadersLike } from './headers.ts';
import {
  asymmetricSignatures,
  hexSignatures,
  isPublic,
  isSigned,
  isSignedBy,
  publicKeys,
  standardKey,
  standardSignatures,
} from './signature.ts';

// The package's only entry point; applications import it by the package's name.
export { rememberIds } from './duplicates.ts';
export { WebhookError, type WebhookErrorCode } from './error.ts';
export { handshakeHeaders } from './handshake.ts';
export type { HeadersLike } from './headers.ts';
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
