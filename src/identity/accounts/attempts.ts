/** A password that somebody gives for an account: judged no faster than guessing may go, and the owner never locked out. */
import type { Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import { isEmail } from '#core/email.ts';
import { originOf, recordAuditEntry } from './audit/audit.ts';
import type { Devices } from './device.ts';
import type { Passwords } from './passwords.ts';
import { findUserByEmail, type Credentials } from './accounts-sql.ts';
import { addressPrefix } from './throttle/prefix.ts';
import type { Bucket, Throttle } from './throttle/throttle.ts';

type Attempt =
  | { kind: 'right'; user: Credentials }
  | { kind: 'wrong' }
  /** Nothing was judged and nothing hashed. */
  | { kind: 'too many'; retryAfterSeconds: number };

export type Attempts = (request: RawRequest, given: { email: string; password: string }) => Promise<Attempt>;

/**
 * A browser that signed in to this account before has tries of its own, which no stranger can use up. All others share
 * those of their address and of the account: guessing from many addresses is as slow as guessing from one.
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
 * An unknown address costs the same statements and the same hash as a wrong password, and a user whom the operator keeps
 * out has a wrong password always: neither the answer nor its time tells who has an account.
 */
export const createAttempts = (deps: {
  sql: Sql;
  passwords: Passwords;
  throttle: Throttle;
  devices: Devices;
}): Attempts => {
  const { sql, passwords, throttle, devices } = deps;
  return async (request, { email, password }) => {
    const user = await findUserByEmail(sql, isEmail(email) ? email : '');
    // As the database has it: two spellings that it takes for one account must not be two accounts to guess at.
    const account = (user?.email ?? email).toLowerCase();
    const device = devices.recognize(request, { email: account, passwordHash: user?.passwordHash ?? '' });
    const buckets = bucketsOf(device, request.address, account);
    const taken = await throttle.take(buckets, request.now);
    if (!taken.allowed) return { kind: 'too many', retryAfterSeconds: taken.retryAfterSeconds };
    const matches = await passwords.verify(password, user?.passwordHash).catch(async (error: unknown) => {
      // Nothing was judged: a flood that keeps the hashing busy must not use up the owner's tries.
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
};
