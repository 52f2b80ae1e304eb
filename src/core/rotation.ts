/** Decides which key of a webhook is valid during a rotation. Pure. */

/** `Key`: sealed or opened. During a rotation there is a next key, and the time at which it becomes the current one. */
export type Rotating<Key> = { encryptionKey: Key | null; nextEncryptionKey: Key | null; rotationEndsAt: Date | null };

/** Returns the current key at `now`, and the next one during a rotation. */
export function keysAt<Key>(
  { encryptionKey, nextEncryptionKey, rotationEndsAt }: Rotating<Key>,
  now: Date,
): { current: Key | null; next: Key | null } {
  return rotationEndsAt !== null && rotationEndsAt <= now
    ? { current: nextEncryptionKey, next: null }
    : { current: encryptionKey, next: nextEncryptionKey };
}
