/** Verifies a submitted password. The attempts are throttled per address and account, without locking the owner out. */
import type { Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { readEmail } from '#core/email.ts';
import { originOf, recordAuditEntry } from './audit/audit.ts';
import type { Devices } from './device.ts';
import type { Passwords } from './passwords.ts';
import { findUserByEmail, type Credentials } from './accounts-sql.ts';
import { addressPrefix } from './throttle/prefix.ts';
import type { Bucket, Throttle } from './throttle/throttle.ts';

type Attempt =
  | { kind: 'right'; user: Credentials }
  | { kind: 'wrong' }
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
 * `wrong`: neither the response nor its duration reveals whether an account exists.
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
    return { kind: 'wrong' };
  };
}
