/** Keys during a rotation. */
import { createHmac } from 'node:crypto';

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
