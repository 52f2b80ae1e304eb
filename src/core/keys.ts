/**
 * Keys during a rotation, and the Ed25519 keys of webhooks as texts: `whsk_` and the base64 of the private key, `whpk_` and that of the public
 * one (Standard Webhooks 1.0, "Signature scheme").
 */
import {
  createHmac,
  createHash,
  createPrivateKey,
  createPublicKey,
  randomBytes,
  sign,
  verify,
  type KeyObject,
} from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { entriesUpTo } from './entries.ts';

/** Keys for one purpose: the first one is used for new data, all are valid for existing data. */
export type Keys = readonly [Buffer, ...Buffer[]];

/** Derives a key for this purpose from each secret key, in order: HMAC-SHA256, 32 bytes. */
export function deriveKeys([secret, ...others]: Keys, purpose: string): Keys {
  const derive = (key: Buffer): Buffer => createHmac('sha256', key).update(purpose).digest();
  return [derive(secret), ...others.map(derive)];
}

/** `Key`: sealed or opened. During a rotation there is a next key, and the time at which it becomes the current one. */
export type Rotating<Key> = { encryptionKey: Key | null; nextEncryptionKey: Key | null; rotationEndsAt: Date | null };

/** Returns the key of a webhook that is valid at `now`, and the next one during a rotation. */
export function keysAt<Key>(
  { encryptionKey, nextEncryptionKey, rotationEndsAt }: Rotating<Key>,
  now: Date,
): { current: Key | null; next: Key | null } {
  return rotationEndsAt !== null && rotationEndsAt <= now
    ? { current: nextEncryptionKey, next: null }
    : { current: encryptionKey, next: nextEncryptionKey };
}

/** Returns keys without a rotation. */
export function singleKey<Key>(encryptionKey: Key | null): Rotating<Key> {
  return { encryptionKey, nextEncryptionKey: null, rotationEndsAt: null };
}

/** Returns the row with the keys valid at `now`: after the overlap only the next key, even if the purge has not moved it yet. */
export function withCurrentKeys<Row extends Rotating<unknown>>(row: Row, now: Date): Row {
  const { current, next } = keysAt(row, now);
  return next === null ? { ...row, ...singleKey(current) } : row;
}

const PRIVATE_PREFIX = 'whsk_';
const PUBLIC_PREFIX = 'whpk_';
const SEED_BYTES = 32;
/** PKCS #8 of an Ed25519 key (RFC 8410 §7) before its 32 bytes. */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

/** To make a key of its bytes takes as long as a signature, 50 µs. */
const parsed = new LRUCache<string, KeyObject>(entriesUpTo(1_000));

/** Returns whether a text claims to be a private key. */
export function isSigningKey(text: string): boolean {
  return text.startsWith(PRIVATE_PREFIX);
}

export function isPublicKey(text: string): boolean {
  return text.startsWith(PUBLIC_PREFIX);
}

/** Returns the public key as bytes. */
function publicBytes(key: KeyObject): Buffer {
  return Buffer.from(createPublicKey(key).export({ format: 'jwk' }).x ?? '', 'base64url');
}

/** Parses the 32 bytes of RFC 8032, which the public key may follow, as other libraries write it. */
function parse(text: string): KeyObject | undefined {
  const encoded = text.slice(PRIVATE_PREFIX.length);
  const bytes = Buffer.from(encoded, 'base64');
  if (bytes.toString('base64') !== encoded || (bytes.length !== SEED_BYTES && bytes.length !== 2 * SEED_BYTES))
    return undefined;
  const der = Buffer.concat([PKCS8_HEAD, bytes.subarray(0, SEED_BYTES)]);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  return bytes.length === SEED_BYTES || publicBytes(key).equals(bytes.subarray(SEED_BYTES)) ? key : undefined;
}

/** Returns the private key; undefined for a text that is none, which signs as the key of an HMAC. */
export function signingKeyOf(text: string): KeyObject | undefined {
  if (!isSigningKey(text)) return undefined;
  const known = parsed.get(text) ?? parse(text);
  if (known !== undefined) parsed.set(text, known);
  return known;
}

/** Returns the public key of a private one, as a text; null for any other key. */
export function publicKeyOf(text: string | null): string | null {
  const key = text === null ? undefined : signingKeyOf(text);
  return key === undefined ? null : PUBLIC_PREFIX + publicBytes(key).toString('base64');
}

export function newSigningKey(): string {
  return PRIVATE_PREFIX + randomBytes(SEED_BYTES).toString('base64');
}

/** Returns the signature in base64, 64 bytes. */
export function signWith(key: KeyObject, message: Uint8Array): string {
  return sign(null, message, key).toString('base64');
}

/** Returns the public key of `publicKeyOf` as a JSON Web Key (RFC 8037 §2); `kid` is its thumbprint (RFC 7638). */
export function jwkOf(publicKey: string) {
  const x = Buffer.from(publicKey.slice(PUBLIC_PREFIX.length), 'base64').toString('base64url');
  const required = { crv: 'Ed25519', kty: 'OKP', x };
  const kid = createHash('sha256').update(JSON.stringify(required)).digest('base64url');
  return { ...required, kid, use: 'sig', alg: 'EdDSA' };
}

/** Returns whether a signature of the header (`v1a,` and base64) was made with the private key of this public one. */
export function isSignedBy(publicKey: string, message: Uint8Array, signature: string): boolean {
  if (!isPublicKey(publicKey) || !signature.startsWith('v1a,')) return false;
  const bytes = Buffer.from(publicKey.slice(PUBLIC_PREFIX.length), 'base64');
  if (bytes.length !== SEED_BYTES) return false;
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' });
  return verify(null, message, key, Buffer.from(signature.slice('v1a,'.length), 'base64'));
}
