/** The nonce of a form that changes something: it was made for this session, and for what this form does. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import type { Session } from './sessions.ts';

/**
 * HMAC-SHA256 over the session and everything that the form's effect depends on (`bound`: its name, then the rest).
 * Nothing is stored, so two tabs do not get in each other's way, and a form sent twice is no error by itself.
 */
const nonceWith = (key: Buffer, session: Session, bound: readonly unknown[]): string =>
  createHmac('sha256', key)
    .update(JSON.stringify([session.id, ...bound]))
    .digest('base64url');

export const formNonce = ([key]: Keys, session: Session, bound: readonly unknown[]): string =>
  nonceWith(key, session, bound);

export const isFormNonce = (
  given: string | null,
  keys: Keys,
  { session, bound }: { session: Session; bound: readonly unknown[] },
): boolean => {
  const bytes = Buffer.from(given ?? '');
  return keys.some((key) => {
    const expected = Buffer.from(nonceWith(key, session, bound));
    return bytes.length === expected.length && timingSafeEqual(bytes, expected);
  });
};
