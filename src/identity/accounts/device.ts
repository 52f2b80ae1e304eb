/**
 * Device cookies (OWASP, "device cookies"): a browser that has signed in to an account has its own throttle bucket, so that
 * guesses from other browsers do not block the owner.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { stringifySetCookie } from 'cookie';
import type { RawRequest } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';

const NONCE_BYTES = 16;
const LIFETIME_SECONDS = 365 * 86_400;
/** Device cookies per browser; the one with the oldest sign-in is removed first. */
const ACCOUNTS_MAX = 5;
const NAME_LENGTH = 12;

/** Both as currently stored. */
type DeviceAccount = { email: string; passwordHash: string };
type CookieRequest = Pick<RawRequest, 'cookies' | 'now'>;

export type Devices = {
  /**
   * Returns the nonce that identifies the browser to the throttle; undefined if it has not signed in to this account
   * with the current password.
   */
  recognize: (request: CookieRequest, account: DeviceAccount) => string | undefined;
  /** Returns the `Set-Cookie` values for a browser that has just signed in. They grant no access. */
  remember: (request: CookieRequest, account: DeviceAccount) => string[];
};

function parse(value: string | undefined) {
  const [, nonce, since, proof] = /^([A-Za-z0-9_-]{22})\.([0-9]{10})\.([A-Za-z0-9_-]{43})$/.exec(value ?? '') ?? [];
  if (nonce === undefined || since === undefined || proof === undefined) return undefined;
  return { nonce, since: Number(since), proof: Buffer.from(proof, 'base64url') };
}

const mac = (key: Buffer, ...parts: readonly (string | number)[]): Buffer =>
  createHmac('sha256', key).update(JSON.stringify(parts)).digest();

const proofOf = (key: Buffer, nonce: string, since: number, { email, passwordHash }: DeviceAccount): Buffer =>
  mac(key, 'proof', nonce, since, email, passwordHash);

const secondsOf = (at: Date): number => Math.floor(at.getTime() / 1_000);

/**
 * `keys`: 32 bytes each. The server stores nothing: a cookie consists of a random nonce, its time of creation in seconds, and
 * the HMAC-SHA256 of both with the account and its password hash, so a stolen cookie expires after a year or with a new
 * password. Each account has its own cookie, under a name that does not reveal the account.
 */
export function createDevices({ keys, authUrl }: { keys: Keys; authUrl: string }): Devices {
  const secure = authUrl.startsWith('https:');
  const prefix = secure ? '__Host-halcyon-device-' : 'halcyon-device-';
  const nameOf = (key: Buffer, { email }: DeviceAccount): string =>
    prefix + mac(key, 'name', email).toString('base64url').slice(0, NAME_LENGTH);
  const cookie = (name: string, value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: '/', httpOnly: true, sameSite: 'lax', secure });
  /** Returns the names of the cookies to remove when a cookie is added beyond the maximum. */
  const surplus = ({ cookies }: CookieRequest, name: string): string[] =>
    Object.keys(cookies)
      .filter((other) => other.startsWith(prefix) && other !== name)
      .toSorted((a, b) => (parse(cookies[b])?.since ?? 0) - (parse(cookies[a])?.since ?? 0))
      .slice(ACCOUNTS_MAX - 1);

  const recognizeWith = (key: Buffer, { cookies, now }: CookieRequest, account: DeviceAccount): string | undefined => {
    const found = parse(cookies[nameOf(key, account)]);
    if (found === undefined) return undefined;
    const isAuthentic = timingSafeEqual(found.proof, proofOf(key, found.nonce, found.since, account));
    const isFresh = found.since + LIFETIME_SECONDS > secondsOf(now);
    return isAuthentic && isFresh ? found.nonce : undefined;
  };

  return {
    recognize: (request, account) => {
      for (const key of keys) {
        const nonce = recognizeWith(key, request, account);
        if (nonce !== undefined) return nonce;
      }
      return undefined;
    },
    remember: (request, account) => {
      const [key] = keys;
      const name = nameOf(key, account);
      const nonce = randomBytes(NONCE_BYTES).toString('base64url');
      const since = secondsOf(request.now);
      const value = `${nonce}.${since}.${proofOf(key, nonce, since, account).toString('base64url')}`;
      return [cookie(name, value, LIFETIME_SECONDS), ...surplus(request, name).map((other) => cookie(other, '', 0))];
    },
  };
}
