/** The signatures of a delivery: two of HMAC-SHA256, or one of Ed25519. */
import { fromBase64, fromHex, utf8, type Bytes } from './bytes.ts';

const HMAC = { name: 'HMAC', hash: 'SHA-256' } as const;
const SECRET_PREFIX = 'whsec_';
/** During a rotation there are two. Each costs a hash of the body, so a header full of them would cost an attacker nothing and the receiver much. */
const SIGNATURES_READ = 8;

/** Standard Webhooks 1.0, "Signature scheme": the decoded bytes of `whsec_` + base64 with its padding; any other key is its own UTF-8 bytes. */
export function standardKey(key: string): Bytes {
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
export function standardSignatures(header: string): Bytes[] {
  return header
    .split(' ')
    .slice(0, SIGNATURES_READ)
    .flatMap((part) => /^v1,([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)$/.exec(part)?.[1] ?? [])
    .map(fromBase64);
}

/** The Ed25519 signatures of the header, which begin with `v1a`. */
export function asymmetricSignatures(header: string): Bytes[] {
  return header
    .split(' ')
    .slice(0, SIGNATURES_READ)
    .flatMap((part) => /^v1a,([A-Za-z0-9+/]{85}[AQgw]==)$/.exec(part)?.[1] ?? [])
    .map(fromBase64);
}

const PUBLIC_PREFIX = 'whpk_';

/** A public key is known to everyone, so even one that is cut off, quoted or capitalised must not verify as a secret. */
export function isPublic(key: string): boolean {
  return /^["'\s]*whpk_/i.test(key);
}

/** The 32 bytes of `whpk_` + base64; none of another text. */
export function publicKeys(key: string): Bytes[] {
  const encoded = key.startsWith(PUBLIC_PREFIX) ? key.slice(PUBLIC_PREFIX.length) : '';
  return /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(encoded) ? [fromBase64(encoded)] : [];
}

/** One header, one signature: 64 lower-case digits, or none. */
export function hexSignatures(header: string | undefined): Bytes[] {
  return header !== undefined && /^[0-9a-f]{64}$/.test(header) ? [fromHex(header)] : [];
}

/** Returns whether one of the Ed25519 signatures was made with the private key of one of the public keys. */
export async function isSignedBy(text: Bytes, keys: readonly Bytes[], signatures: readonly Bytes[]): Promise<boolean> {
  for (const key of signatures.length === 0 ? [] : keys) {
    const imported = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']);
    for (const signature of signatures) {
      if (await crypto.subtle.verify('Ed25519', imported, signature, text)) return true;
    }
  }
  return false;
}

/** Returns whether one of the signatures was made with one of the keys. `verify` of WebCrypto compares in constant time. */
export async function isSigned(text: Bytes, keys: readonly Bytes[], signatures: readonly Bytes[]): Promise<boolean> {
  for (const key of keys) {
    const imported = await crypto.subtle.importKey('raw', key, HMAC, false, ['verify']);
    for (const signature of signatures) {
      if (await crypto.subtle.verify('HMAC', imported, signature, text)) return true;
    }
  }
  return false;
}
