/**
 * A browser that has signed in to an account keeps a cookie that says so (OWASP, "device cookies"): guessing is counted
 * apart from it, so that no stranger's guesses hold up the owner's own browser.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { stringifySetCookie } from 'cookie';
import type { DoorRequest } from '#http/route.ts';

const NONCE_BYTES = 16;
const LIFETIME_SECONDS = 365 * 86_400;

/** `account` is the account's e-mail address, in whatever case. */
export type Devices = {
  /** The nonce by which the browser is counted; undefined where it never signed in to this account. */
  recognize: (request: DoorRequest, account: string) => string | undefined;
  /** The `Set-Cookie` for a browser that has just proved itself. It opens nothing. */
  remember: (account: string) => string;
};

/** `key`: 32 bytes. The cookie is a random nonce and its HMAC-SHA256 together with the account; nothing is stored. */
export const createDevices = ({ key, authUrl }: { key: Uint8Array; authUrl: string }): Devices => {
  const secure = authUrl.startsWith('https:');
  const name = secure ? '__Host-halcyon-device' : 'halcyon-device';
  const proofOf = (nonce: string, account: string): Buffer =>
    createHmac('sha256', key)
      .update(JSON.stringify([nonce, account.toLowerCase()]))
      .digest();
  return {
    recognize: (request, account) => {
      const [, nonce, proof] = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/.exec(request.cookies[name] ?? '') ?? [];
      if (nonce === undefined || proof === undefined) return undefined;
      return timingSafeEqual(Buffer.from(proof, 'base64url'), proofOf(nonce, account)) ? nonce : undefined;
    },
    remember: (account) => {
      const nonce = randomBytes(NONCE_BYTES).toString('base64url');
      const value = `${nonce}.${proofOf(nonce, account).toString('base64url')}`;
      return stringifySetCookie({
        name,
        value,
        maxAge: LIFETIME_SECONDS,
        path: '/',
        httpOnly: true,
        sameSite: 'lax',
        secure,
      });
    },
  };
};
