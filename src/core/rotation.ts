/** Keys of a webhook, one of which takes over from the other: which of them counts when. Pure. */

/** `Key`: sealed or opened. During a rotation there is a next one, and the time from which it is the key. */
export type Rotating<Key> = { encryptionKey: Key | null; nextEncryptionKey: Key | null; rotationEndsAt: Date | null };

/** The key that counts at `now`, and the one that takes over from it later. */
export const keysAt = <Key>(
  { encryptionKey, nextEncryptionKey, rotationEndsAt }: Rotating<Key>,
  now: Date,
): { current: Key | null; next: Key | null } =>
  rotationEndsAt !== null && rotationEndsAt <= now
    ? { current: nextEncryptionKey, next: null }
    : { current: encryptionKey, next: nextEncryptionKey };
