/**
 * What the server gives to a browser instead of storing it: the nonces of forms, which are signed (HMAC-SHA256 with a key of their own
 * purpose), and values between the steps of a flow and the challenges of passkeys, which are sealed.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import type { Sealer } from '#db/seal.ts';
import type { Session } from './sessions.ts';

/** Returns the HMAC-SHA256 of the parts. */
export function mac(key: Buffer, ...parts: readonly unknown[]): Buffer {
  return createHmac('sha256', key).update(JSON.stringify(parts)).digest();
}

/**
 * Signs the session and everything that the form's effect depends on (`bound`: its name, then the rest). The server stores nothing, so two
 * tabs do not interfere, and submitting a form twice is not an error by itself.
 */
const nonceWith = (key: Buffer, session: Session, bound: readonly unknown[]): string =>
  mac(key, session.id, ...bound).toString('base64url');

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

export const CARRIED_MS = 10 * 60_000;

/** Returns a value that a browser carries for ten minutes and cannot read. `boundTo`: its purpose, and what its meaning depends on. */
export function carry(sealer: Sealer, boundTo: string, value: unknown, now: Date): string {
  const until = now.getTime() + CARRIED_MS;
  return sealer.seal(JSON.stringify({ until, value }), boundTo).toString('base64url');
}

/** Returns what a browser has carried, and when it expires; undefined if it is not authentic, is bound to something else, or has expired. */
export function carried(
  sealer: Sealer,
  boundTo: string,
  text: string | null | undefined,
  now: Date,
): { value: unknown; until: Date } | undefined {
  try {
    const opened = sealer.open(Buffer.from(text ?? '', 'base64url'), boundTo);
    const { until, value } = JSON.parse(opened) as { until: number; value: unknown };
    return now.getTime() < until ? { value, until: new Date(until) } : undefined;
  } catch {
    return undefined;
  }
}
