/**
 * Verifies a submitted password. The attempts are throttled per address and account, without locking the owner out: a browser that has
 * signed in to an account has a device cookie (OWASP, "device cookies") and a throttle bucket of its own.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { RawRequest } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';
import type { Queryable, Sql } from '#db/pool.ts';
import { readEmail } from '#core/email.ts';
import { originOf, recordAuditEntry } from './audit.ts';
import type { Passwords } from './passwords.ts';
import { findUserByEmail, lockUser, type Credentials } from './accounts-sql.ts';
import { cookiesOf } from './sessions.ts';
import { mac } from './signed-tokens.ts';
import { addressPrefix, type Bucket, type Throttle } from './throttle.ts';

const NONCE_BYTES = 16;
const LIFETIME_SECONDS = 365 * 86_400;
/** Device cookies per browser; the one with the oldest sign-in is removed first. */
const ACCOUNTS_MAX = 5;
const NAME_LENGTH = 12;

/** Both as currently stored. */
type DeviceAccount = { email: string; passwordHash: string };
type CookieRequest = Pick<RawRequest, 'cookies' | 'now'>;

function parse(value: string | undefined) {
  const [, nonce, since, proof] = /^([A-Za-z0-9_-]{22})\.([0-9]{10})\.([A-Za-z0-9_-]{43})$/.exec(value ?? '') ?? [];
  if (nonce === undefined || since === undefined || proof === undefined) return undefined;
  return { nonce, since: Number(since), proof: Buffer.from(proof, 'base64url') };
}

const proofOf = (key: Buffer, nonce: string, since: number, { email, passwordHash }: DeviceAccount): Buffer =>
  mac(key, 'proof', nonce, since, email, passwordHash);

const secondsOf = (at: Date): number => Math.floor(at.getTime() / 1_000);

/**
 * `keys`: 32 bytes each. The server stores nothing: a cookie consists of a random nonce, its time of creation in seconds, and
 * the HMAC-SHA256 of both with the account and its password hash, so a stolen cookie expires after a year or with a new
 * password. Each account has its own cookie, under a name that does not reveal the account.
 */
export function createDevices({ keys, authUrl }: { keys: Keys; authUrl: string }) {
  const { prefix: ofHost, set } = cookiesOf(authUrl);
  const prefix = `${ofHost}-device-`;
  const nameOf = (key: Buffer, { email }: DeviceAccount): string =>
    prefix + mac(key, 'name', email).toString('base64url').slice(0, NAME_LENGTH);
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
    /**
     * Returns the nonce that identifies the browser to the throttle; undefined if it has not signed in to this account
     * with the current password.
     */
    recognize: (request: CookieRequest, account: DeviceAccount): string | undefined => {
      for (const key of keys) {
        const nonce = recognizeWith(key, request, account);
        if (nonce !== undefined) return nonce;
      }
      return undefined;
    },
    /** Returns the `Set-Cookie` values for a browser that has just signed in. They grant no access. */
    remember: (request: CookieRequest, account: DeviceAccount): string[] => {
      const [key] = keys;
      const name = nameOf(key, account);
      const nonce = randomBytes(NONCE_BYTES).toString('base64url');
      const since = secondsOf(request.now);
      const value = `${nonce}.${since}.${proofOf(key, nonce, since, account).toString('base64url')}`;
      return [set(name, value, LIFETIME_SECONDS), ...surplus(request, name).map((other) => set(other, '', 0))];
    },
  };
}

export type Devices = ReturnType<typeof createDevices>;

type Attempt =
  | { kind: 'right'; user: Credentials }
  /** `suspendedReason`: the password was right, and an operator has suspended the person. */
  | { kind: 'wrong'; suspendedReason: string | null }
  /** The password was not checked and no hash was computed. */
  | { kind: 'too many'; retryAfterSeconds: number };

export type Attempts = (request: RawRequest, input: { email: string; password: string }) => Promise<Attempt>;

/**
 * Returns the buckets of an attempt. A browser that has signed in to this account before has its own buckets, which other
 * browsers cannot use up. All others share the buckets of their address and of the account, so guessing from many addresses
 * is as slow as guessing from one.
 */
const bucketsOf = (device: string | undefined, address: string, account: string): readonly Bucket[] =>
  device === undefined
    ? [
        { limit: 'sign-in from address', subject: addressPrefix(address) },
        { limit: 'sign-in to account', subject: account },
      ]
    : [
        { limit: 'sign-in by device', subject: device },
        { limit: 'sign-in by any device', subject: account },
      ];

/**
 * An unknown e-mail address costs the same statements and the same hash as a wrong password, and a disabled user gets
 * `wrong`: neither the response nor its duration reveals whether an account exists, except to a suspended person who knows the password.
 */
export function createAttempts(deps: {
  sql: Sql;
  passwords: Passwords;
  throttle: Throttle;
  devices: Devices;
}): Attempts {
  const { sql, passwords, throttle, devices } = deps;
  return async (request, { email, password }) => {
    // All spellings of an address share its bucket.
    const account = readEmail(email) ?? email;
    const user = await findUserByEmail(sql, account);
    const device = devices.recognize(request, { email: account, passwordHash: user?.passwordHash ?? '' });
    const buckets = bucketsOf(device, request.address, account);
    const taken = await throttle.take(buckets, request.now);
    if (!taken.allowed) return { kind: 'too many', retryAfterSeconds: taken.retryAfterSeconds };
    const matches = await passwords.verify(password, user?.passwordHash).catch(async (error: unknown) => {
      // The password was not checked: a flood that keeps the hashing busy must not use up the owner's attempts.
      await taken.giveBack();
      throw error;
    });
    if (matches && user !== undefined && !user.isDisabled) {
      await taken.giveBack();
      return { kind: 'right', user };
    }
    const userId = user?.id ?? null;
    await recordAuditEntry(sql, { action: 'sign_in_failed', userId, origin: originOf(request), now: request.now });
    return { kind: 'wrong', suspendedReason: matches ? (user?.disabledReason ?? null) : null };
  };
}

/** Locks the user of an attempt that was right; undefined if the password was changed, or the user disabled, since. */
export async function lockVerified(sql: Queryable, { id, passwordHash }: Credentials) {
  const locked = await lockUser(sql, id);
  return locked?.passwordHash === passwordHash && !locked.isDisabled ? locked : undefined;
}
