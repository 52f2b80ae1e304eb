/**
 * Throttles guessing with token buckets in PostgreSQL, shared by all processes and kept across restarts. A bucket starts
 * full, each try takes one token, and tokens are refilled at a fixed rate (the generic cell rate algorithm, which needs one
 * column). A submitted password is verified under them per address and account, without locking the owner out: a browser that has signed in
 * to an account has a device cookie (OWASP, "device cookies") and a bucket of its own.
 *
 * rate-limiter-flexible is not used, because it reads the wall clock itself and sends SQL of its own.
 */
import { addressPrefix } from '#core/address-prefix.ts';
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Sql, Queryable } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import type { Keys } from '#core/keys.ts';
import { readEmail } from '#core/email.ts';
import {
  fullAt,
  giveBack,
  takeOne,
  type KeyedBucket,
  findUserByEmail,
  lockUser,
  type Credentials,
} from './accounts-sql.ts';
import { originOf, recordAuditEntry } from './audit.ts';
import type { Passwords } from './users.ts';
import { cookiesOf, mac } from './sessions.ts';

type Limit = { tries: number; refillSeconds: number };

/** The capacity of each bucket in tries, and the seconds until one try is refilled. */
const limits = {
  /** Failed sign-ins from one address prefix for all accounts: many people may share one office address. */
  'sign-in from address': { tries: 50, refillSeconds: 20 },
  /** Failed sign-ins for one account from browsers that never signed in to it. */
  'sign-in to account': { tries: 10, refillSeconds: 60 },
  /** Failed sign-ins from a browser that has signed in before: guesses from elsewhere do not block the owner. */
  'sign-in by device': { tries: 10, refillSeconds: 60 },
  /** Failed sign-ins from all such browsers together, in case their cookies were stolen. */
  'sign-in by any device': { tries: 30, refillSeconds: 20 },
  /** Wrong codes of a second factor: at 12 an hour, of which three are valid at a time, a guess succeeds after years. */
  'codes of account': { tries: 5, refillSeconds: 300 },
  /** The same from a browser that has signed in before: guesses from elsewhere do not block the owner. */
  'codes by device': { tries: 5, refillSeconds: 300 },
  /** Mails to one account: a short burst, then one before the previous link expires. */
  'mail to account': { tries: 3, refillSeconds: 1_200 },
  'mails to account a day': { tries: 6, refillSeconds: 3_000 },
  'mail from address': { tries: 20, refillSeconds: 180 },
  /** Links for a new account at one address: strangers request them, so they do not use up the mails of an account. */
  'sign-up mails to address': { tries: 3, refillSeconds: 1_200 },
  'sign-up mails to address a day': { tries: 6, refillSeconds: 3_000 },
  /** Mails to one account for a browser that has signed in to it: strangers cannot use them up. */
  'mails by device': { tries: 3, refillSeconds: 1_200 },
  /** Mails about the security of one account, of each kind: who knows the password could send them without end. */
  'security mails to account': { tries: 10, refillSeconds: 3_600 },
  /** Requested changes of the e-mail address of one account, each of which mails a stranger. */
  'changes of address by person': { tries: 5, refillSeconds: 3_600 },
  /** The same to one address, by one person: strangers must not use up what its own person needs. */
  'changes of address to mailbox': { tries: 3, refillSeconds: 1_200 },
  /** Mails to one address that other people cause, by all of them together: only many accounts can use it up. */
  'mails of others to mailbox': { tries: 30, refillSeconds: 600 },
  /** Mails of invitations to one address by one inviter: a stranger must not use up those of the other stores and of the platform. */
  'invitation to address': { tries: 3, refillSeconds: 1_200 },
  /** Mails of invitations by one store owner. */
  'invitations by person': { tries: 20, refillSeconds: 180 },
  /** Links of invitations that are not valid, and attempts to accept that fail, from one address prefix. */
  'invitation from address': { tries: 20, refillSeconds: 30 },
  /**
   * Accounts that exist already, found by valid links from one address prefix, and by those of one owner: more would show which
   * addresses have an account. Only without mail: with mail no page shows it.
   */
  'taken address from network': { tries: 5, refillSeconds: 600 },
  'taken address by inviter': { tries: 5, refillSeconds: 600 },
  /** Links of the platform for one member of a store: each is two entries of the changelog. */
  'portal links to member': { tries: 30, refillSeconds: 10 },
  /** Requests for sample events in one sandbox store: 17,280 events a day, which up to 100 webhooks of the store receive. */
  'sample events of store': { tries: 20, refillSeconds: 300 },
  /** Failed authentications of one client from one address prefix. */
  'client from address': { tries: 20, refillSeconds: 30 },
  /** Requests for device codes at one address prefix, by all clients together. */
  'device codes to address': { tries: 30, refillSeconds: 20 },
  /** Wrong user codes of devices from one address prefix, and by one person. */
  'user code from address': { tries: 20, refillSeconds: 30 },
  'user code by person': { tries: 10, refillSeconds: 60 },
  /** Approvals of apps that declare a webhook by one person, so that no person uses up those of the others. */
  'approvals by person': { tries: 20, refillSeconds: 60 },
  /** Approvals of one app that declares a webhook, and of the apps with one host: each sends it that it was let in, and later its end. */
  'approvals of app': { tries: 60, refillSeconds: 5 },
  'approvals to host': { tries: 240, refillSeconds: 1 },
  /** Metadata documents of apps that are fetched for one person. */
  'documents by person': { tries: 20, refillSeconds: 30 },
  /** Clients registered through the protocol from one address prefix. */
  'registration from address': { tries: 20, refillSeconds: 180 },
  /** Clients registered with one registration token: it may have leaked. */
  'registration by token': { tries: 100, refillSeconds: 180 },
} as const satisfies Record<string, Limit>;

/** `subject` is the address, account or client that is counted; it is stored as a hash. */
export type Bucket = { limit: keyof typeof limits; subject: string };

type ThrottleResult =
  | { allowed: true; /** Returns the tokens of a try that was not a guess. */ giveBack: () => Promise<void> }
  | { allowed: false; retryAfterSeconds: number };

export type Throttle = ReturnType<typeof createThrottle>;

const keyOf = ({ limit, subject }: Bucket): Buffer => createHash('sha256').update(`${limit}\0${subject}`).digest();

/** Returns the seconds until an empty bucket has a token again; at least 1, because its level is read later. */
function secondsUntilToken(bucket: KeyedBucket, full: Date | undefined, now: Date): number {
  const fullInSeconds = ((full ?? now).getTime() - now.getTime()) / 1_000;
  return Math.max(1, Math.ceil(fullInSeconds - bucket.refillSeconds * (bucket.tries - 1)));
}

/**
 * A token is taken before the password is checked and returned if it was right, so that concurrent guesses cannot exceed
 * the bucket's capacity.
 */
export function createThrottle({ sql }: { sql: Sql }) {
  return {
    /**
     * Takes one token from each bucket in the given order, one statement each; rejects the try if a bucket is empty. A rejected
     * try counts in no bucket: tokens already taken are returned. Otherwise an attacker whose address is exhausted could still
     * drain the buckets of accounts.
     */
    take: async (buckets: readonly Bucket[], now: Date): Promise<ThrottleResult> => {
      const taken: KeyedBucket[] = [];
      const returnAll = async (): Promise<void> => {
        for (const bucket of taken) await giveBack(sql, bucket);
      };
      for (const bucket of buckets.map((named) => ({ key: keyOf(named), ...limits[named.limit] }))) {
        if (await takeOne(sql, bucket, now)) {
          taken.push(bucket);
          continue;
        }
        await returnAll();
        return { allowed: false, retryAfterSeconds: secondsUntilToken(bucket, await fullAt(sql, bucket), now) };
      }
      return { allowed: true, giveBack: returnAll };
    },
  };
}

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
    recognize: (request: CookieRequest, account: DeviceAccount): string | undefined =>
      keys
        .values()
        .map((key) => recognizeWith(key, request, account))
        .find((nonce) => nonce !== undefined),
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
