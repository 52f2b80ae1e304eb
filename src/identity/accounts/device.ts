/**
 * A browser that has signed in to an account keeps a cookie that says so (OWASP, "device cookies"): guessing is counted
 * apart from it, so that no stranger's guesses hold up the owner's own browser.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { stringifySetCookie } from 'cookie';
import type { RawRequest } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';

const NONCE_BYTES = 16;
const LIFETIME_SECONDS = 365 * 86_400;
/** How many accounts one browser is known to; the one that it signed in to longest ago makes room. */
const ACCOUNTS_MAX = 5;
const NAME_LENGTH = 12;

/** `email` in whatever case, `passwordHash` as it is stored now. */
type DeviceAccount = { email: string; passwordHash: string };
type Asked = Pick<RawRequest, 'cookies' | 'now'>;

export type Devices = {
  /** The nonce by which the browser is counted; undefined where it did not sign in to this account with its password of now. */
  recognize: (request: Asked, account: DeviceAccount) => string | undefined;
  /** The `Set-Cookie`s for a browser that has just proved itself. They open nothing. */
  remember: (request: Asked, account: DeviceAccount) => string[];
};

const parse = (value: string | undefined) => {
  const [, nonce, since, proof] = /^([A-Za-z0-9_-]{22})\.([0-9]{10})\.([A-Za-z0-9_-]{43})$/.exec(value ?? '') ?? [];
  if (nonce === undefined || since === undefined || proof === undefined) return undefined;
  return { nonce, since: Number(since), proof: Buffer.from(proof, 'base64url') };
};

const mac = (key: Buffer, ...parts: readonly (string | number)[]): Buffer =>
  createHmac('sha256', key).update(JSON.stringify(parts)).digest();

const proofOf = (key: Buffer, nonce: string, since: number, { email, passwordHash }: DeviceAccount): Buffer =>
  mac(key, 'proof', nonce, since, email.toLowerCase(), passwordHash);

const secondsOf = (at: Date): number => Math.floor(at.getTime() / 1_000);

/**
 * `keys`: 32 bytes each. Nothing is stored: a cookie is a random nonce, the second it was made, and the HMAC-SHA256 of both with
 * the account and its password hash, so that whoever collected cookies has nothing left after a year or a new password.
 * There is one for each account, under a name that tells nobody which.
 */
export const createDevices = ({ keys, authUrl }: { keys: Keys; authUrl: string }): Devices => {
  const secure = authUrl.startsWith('https:');
  const prefix = secure ? '__Host-halcyon-device-' : 'halcyon-device-';
  const nameOf = (key: Buffer, { email }: DeviceAccount): string =>
    prefix + mac(key, 'name', email.toLowerCase()).toString('base64url').slice(0, NAME_LENGTH);
  const cookie = (name: string, value: string, maxAge: number): string =>
    stringifySetCookie({ name, value, maxAge, path: '/', httpOnly: true, sameSite: 'lax', secure });
  /** Those of other accounts that there is no room for beside a new one. */
  const surplus = ({ cookies }: Asked, name: string): string[] =>
    Object.keys(cookies)
      .filter((other) => other.startsWith(prefix) && other !== name)
      .toSorted((a, b) => (parse(cookies[b])?.since ?? 0) - (parse(cookies[a])?.since ?? 0))
      .slice(ACCOUNTS_MAX - 1);

  const recognizeWith = (key: Buffer, { cookies, now }: Asked, account: DeviceAccount): string | undefined => {
    const found = parse(cookies[nameOf(key, account)]);
    if (found === undefined) return undefined;
    const isProved = timingSafeEqual(found.proof, proofOf(key, found.nonce, found.since, account));
    const isFresh = found.since + LIFETIME_SECONDS > secondsOf(now);
    return isProved && isFresh ? found.nonce : undefined;
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
};
