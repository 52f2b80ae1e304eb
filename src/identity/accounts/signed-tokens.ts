/**
 * What the server signs and gives to a browser instead of storing it: the nonces of forms, the state between password and second factor, an
 * identity that a provider has verified, and the challenges of passkeys. Each is an HMAC-SHA256 with a key of its own purpose.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import type { Session } from './sessions.ts';
import type { Credentials, ExternalIdentity } from './accounts-sql.ts';

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

const macOf = (key: Buffer, body: Buffer | string): Buffer => createHmac('sha256', key).update(body).digest();

const VALID_SECONDS = 10 * 60;
const PENDING_PATTERN = /^(\d{1,16})\.(\d{1,12})\.([\w-]{43})$/;

const pendingMacOf = (key: Buffer, { id, passwordHash }: Credentials, expires: number): string =>
  mac(key, id, expires, passwordHash).toString('base64url');

export type PendingSignIns = ReturnType<typeof createPendingSignIns>;

/** Creates the state between password and second factor: a signed token in a hidden field. */
export function createPendingSignIns(keys: Keys) {
  return {
    /** Returns a token that says: the password of this user was right a moment ago. */
    issue: (user: Credentials, now: Date): string => {
      const expires = Math.floor(now.getTime() / 1_000) + VALID_SECONDS;
      return `${user.id}.${expires}.${pendingMacOf(keys[0], user, expires)}`;
    },
    /** Returns the user's id; undefined if the token is malformed or expired. `isOf` checks the rest. */
    userIdOf: (token: string, now: Date): number | undefined => {
      const [, id, expires] = PENDING_PATTERN.exec(token) ?? [];
      return id === undefined || Number(expires) * 1_000 <= now.getTime() ? undefined : Number(id);
    },
    /** Returns whether the token was issued for this user and current password. */
    isOf: (token: string, user: Credentials): boolean => {
      const [, id, expires, signature = ''] = PENDING_PATTERN.exec(token) ?? [];
      return (
        Number(id) === user.id &&
        keys.some((key) =>
          timingSafeEqual(Buffer.from(pendingMacOf(key, user, Number(expires))), Buffer.from(signature)),
        )
      );
    },
  };
}

export const IDENTITY_FIELD = 'identity';

/**
 * An identity that a provider has just verified, in a hidden field of the forms that follow: the password to which it is linked, or
 * the second factor. `provider` is the name. `isLinked`: the identity was linked to the user already, otherwise it is linked by the sign-in.
 */
export type VerifiedIdentity = ExternalIdentity & { provider: string; userId: number; isLinked: boolean };

export type VerifiedIdentities = ReturnType<typeof createVerifiedIdentities>;

export function createVerifiedIdentities(keys: Keys) {
  return {
    issue: (identity: VerifiedIdentity, now: Date): string => {
      const expires = Math.floor(now.getTime() / 1_000) + VALID_SECONDS;
      const payload = Buffer.from(JSON.stringify({ ...identity, expires })).toString('base64url');
      return `${payload}.${macOf(keys[0], payload).toString('base64url')}`;
    },
    /** Returns the identity of a form; undefined if it has none, or the token is not authentic or has expired. */
    of: (form: URLSearchParams, now: Date): VerifiedIdentity | undefined => {
      const [, payload = '', signature] = /^([\w-]{1,8000})\.([\w-]{43})$/.exec(form.get(IDENTITY_FIELD) ?? '') ?? [];
      if (signature === undefined) return undefined;
      const given = Buffer.from(signature, 'base64url');
      if (!keys.some((key) => timingSafeEqual(macOf(key, payload), given))) return undefined;
      const { expires, ...identity } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as VerifiedIdentity & {
        expires: number;
      };
      return expires * 1_000 > now.getTime() ? identity : undefined;
    },
  };
}

export const CHALLENGE_VALID_MS = 10 * 60_000;

const RANDOM_BYTES = 16;
const TIME_BYTES = 6;
const MAC_BYTES = 32;

export type Challenges = ReturnType<typeof createChallenges>;

/** Creates the challenges that passkeys sign: random bytes, expiry and an HMAC of both. */
export function createChallenges(keys: Keys) {
  return {
    issue: (now: Date): Buffer => {
      const expires = Buffer.alloc(TIME_BYTES);
      expires.writeUIntBE(now.getTime() + CHALLENGE_VALID_MS, 0, TIME_BYTES);
      const body = Buffer.concat([randomBytes(RANDOM_BYTES), expires]);
      return Buffer.concat([body, macOf(keys[0], body)]);
    },
    /** Returns the expiry of a challenge in base64url; undefined if this server did not issue it, or it has expired. */
    expiryOf: (challenge: string, now: Date): Date | undefined => {
      const bytes = Buffer.from(challenge, 'base64url');
      if (bytes.length !== RANDOM_BYTES + TIME_BYTES + MAC_BYTES) return undefined;
      const body = bytes.subarray(0, -MAC_BYTES);
      if (!keys.some((key) => timingSafeEqual(macOf(key, body), bytes.subarray(-MAC_BYTES)))) return undefined;
      const expires = new Date(body.readUIntBE(RANDOM_BYTES, TIME_BYTES));
      return expires > now ? expires : undefined;
    },
  };
}
