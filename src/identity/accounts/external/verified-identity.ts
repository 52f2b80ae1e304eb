/**
 * An identity that a provider has just verified, in a hidden field of the forms that follow: the password to which it is linked, or
 * the second factor. The field is a signed token, so the server stores nothing.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Keys } from '#core/keys.ts';
import type { ExternalIdentity } from './external-sql.ts';

export const IDENTITY_FIELD = 'identity';

const VALID_SECONDS = 10 * 60;

/** `provider` is the name. `isLinked`: the identity was linked to the user already, otherwise it is linked by the sign-in. */
export type VerifiedIdentity = ExternalIdentity & { provider: string; userId: number; isLinked: boolean };

export type VerifiedIdentities = {
  issue: (identity: VerifiedIdentity, now: Date) => string;
  /** Returns the identity of a form; undefined if it has none, or the token is not authentic or has expired. */
  of: (form: URLSearchParams, now: Date) => VerifiedIdentity | undefined;
};

const macOf = (key: Buffer, payload: string): Buffer => createHmac('sha256', key).update(payload).digest();

export function createVerifiedIdentities(keys: Keys): VerifiedIdentities {
  return {
    issue: (identity, now) => {
      const expires = Math.floor(now.getTime() / 1_000) + VALID_SECONDS;
      const payload = Buffer.from(JSON.stringify({ ...identity, expires })).toString('base64url');
      return `${payload}.${macOf(keys[0], payload).toString('base64url')}`;
    },
    of: (form, now) => {
      const [, payload = '', mac] = /^([\w-]{1,8000})\.([\w-]{43})$/.exec(form.get(IDENTITY_FIELD) ?? '') ?? [];
      if (mac === undefined) return undefined;
      const given = Buffer.from(mac, 'base64url');
      if (!keys.some((key) => timingSafeEqual(macOf(key, payload), given))) return undefined;
      const { expires, ...identity } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as VerifiedIdentity & {
        expires: number;
      };
      return expires * 1_000 > now.getTime() ? identity : undefined;
    },
  };
}
