/** The state between password and second factor: a signed token in a hidden field, so the server stores nothing. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import type { Credentials } from '../accounts-sql.ts';

const VALID_SECONDS = 10 * 60;
const PATTERN = /^(\d{1,16})\.(\d{1,12})\.([\w-]{43})$/;

export type PendingSignIns = {
  /** Returns a token that says: the password of this user was right a moment ago. */
  issue: (user: Credentials, now: Date) => string;
  /** Returns the user's id; undefined if the token is malformed or expired. `isOf` checks the rest. */
  userIdOf: (token: string, now: Date) => number | undefined;
  /** Returns whether the token was issued for this user and current password. */
  isOf: (token: string, user: Credentials) => boolean;
};

const macOf = (key: Buffer, { id, passwordHash }: Credentials, expires: number): string =>
  createHmac('sha256', key)
    .update(JSON.stringify([id, expires, passwordHash]))
    .digest('base64url');

export function createPendingSignIns(keys: Keys): PendingSignIns {
  return {
    issue: (user, now) => {
      const expires = Math.floor(now.getTime() / 1_000) + VALID_SECONDS;
      return `${user.id}.${expires}.${macOf(keys[0], user, expires)}`;
    },
    userIdOf: (token, now) => {
      const [, id, expires] = PATTERN.exec(token) ?? [];
      return id === undefined || Number(expires) * 1_000 <= now.getTime() ? undefined : Number(id);
    },
    isOf: (token, user) => {
      const [, id, expires, mac = ''] = PATTERN.exec(token) ?? [];
      return (
        Number(id) === user.id &&
        keys.some((key) => timingSafeEqual(Buffer.from(macOf(key, user, Number(expires))), Buffer.from(mac)))
      );
    },
  };
}
