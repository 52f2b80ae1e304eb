/**
 * Encrypts bodies sent over plain http: JWE compact serialization (RFC 7516 §3.1, §7.1), `dir` and `A256GCM` (RFC 7518
 * §4.5, §5.3). Uses node:crypto synchronously: `jose` is asynchronous, so that webhook, lease and current key would
 * have to be checked again afterwards, and takes 71 µs of processor time per KB instead of 30. The tests decrypt with
 * `jose`.
 */
import { createCipheriv, createHash, createHmac, randomBytes } from 'node:crypto';
import { isLoopback } from '#core/loopback.ts';

export const ENCRYPTED_TYPE = 'application/jose';

const NONCE_BYTES = 12;
const KEY_ID_CHARACTERS = 16;

/**
 * Returns the id that distinguishes two keys of a webhook during a rotation: an HMAC over `kid`, which a receiver can
 * compute from its key. Without the key it reveals no more than the signature; a plain hash (RFC 7638 §7 warns of it)
 * would allow a weak key to be looked up in a precomputed table.
 */
const keyIdOf = (encryptionKey: string): string =>
  createHmac('sha256', encryptionKey).update('kid').digest('hex').slice(0, KEY_ID_CHARACTERS);

/** `cty` is the content type without `application/` (RFC 7516 §4.1.12). */
const protectedHeader = (contentType: string, encryptionKey: string): string =>
  JSON.stringify({
    alg: 'dir',
    enc: 'A256GCM',
    kid: keyIdOf(encryptionKey),
    cty: contentType.replace('application/', ''),
  });

/** Returns the encrypted body. The cipher's key is the SHA-256 of the whole `encryption_key` string in UTF-8. */
export function encryptBody(body: Uint8Array, contentType: string, encryptionKey: string): Uint8Array {
  const head = Buffer.from(protectedHeader(contentType, encryptionKey)).toString('base64url');
  const key = createHash('sha256').update(encryptionKey).digest();
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(head));
  const text = Buffer.concat([cipher.update(body), cipher.final()]);
  // The second part, the encrypted key, is empty with `dir`.
  const parts = [head, '', ...[nonce, text, cipher.getAuthTag()].map((bytes) => bytes.toString('base64url'))];
  return Buffer.from(parts.join('.'), 'latin1');
}

/**
 * Returns whether a body sent to the URL could be read on the way: plain http to another machine. Whether loopback is
 * allowed at all is up to the guard.
 */
export function isReadable({ protocol, hostname }: URL): boolean {
  return protocol === 'http:' && !isLoopback(hostname);
}
