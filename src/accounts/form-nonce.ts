/** The nonce of a form that changes something: it was made for this session, and for what this form does. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Session } from './sessions.ts';

/**
 * HMAC-SHA256 over the session and everything that the form's effect depends on (`bound`: its name, then the rest).
 * Nothing is stored, so two tabs do not get in each other's way, and a form sent twice is no error by itself.
 */
export const formNonce = (key: Uint8Array, session: Session, bound: readonly unknown[]): string =>
  createHmac('sha256', key)
    .update(JSON.stringify([session.id, ...bound]))
    .digest('base64url');

export const isFormNonce = (given: string | null, expected: string): boolean => {
  const bytes = Buffer.from(given ?? '');
  return bytes.length === expected.length && timingSafeEqual(bytes, Buffer.from(expected));
};
