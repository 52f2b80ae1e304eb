/** CSRF nonces of forms, bound to the session and to what the form changes. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import type { Session } from './sessions.ts';

/**
 * Returns the HMAC-SHA256 over the session and everything that the form's effect depends on (`bound`: its name, then the
 * rest). The server stores nothing, so two tabs do not interfere, and submitting a form twice is not an error by itself.
 */
const nonceWith = (key: Buffer, session: Session, bound: readonly unknown[]): string =>
  createHmac('sha256', key)
    .update(JSON.stringify([session.id, ...bound]))
    .digest('base64url');

export function formNonce([key]: Keys, session: Session, bound: readonly unknown[]): string {
  return nonceWith(key, session, bound);
}

export function isFormNonce(
  value: string | null,
  keys: Keys,
  { session, bound }: { session: Session; bound: readonly unknown[] },
): boolean {
  const bytes = Buffer.from(value ?? '');
  return keys.some((key) => {
    const expected = Buffer.from(nonceWith(key, session, bound));
    return bytes.length === expected.length && timingSafeEqual(bytes, expected);
  });
}
