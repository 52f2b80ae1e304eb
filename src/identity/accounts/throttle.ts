/**
 * Throttles guessing with token buckets in PostgreSQL, shared by all processes and kept across restarts. A bucket starts
 * full, each try takes one token, and tokens are refilled at a fixed rate (the generic cell rate algorithm, which needs one
 * column).
 *
 * rate-limiter-flexible is not used, because it reads the wall clock itself and sends SQL of its own.
 */
import { createHash } from 'node:crypto';
import type { Sql } from '#db/pool.ts';
import { fullAt, giveBack, takeOne, type KeyedBucket } from './accounts-sql.ts';
import { isIPv4, isIPv6 } from 'node:net';

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

/** A dual-stack socket reports the IPv4 peer 192.0.2.1 as `::ffff:c000:201`. */
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

const IPV6_GROUPS = 8;
const PREFIX_GROUPS = 4;

/**
 * Returns the canonical form of an IPv6 address: lower case, compressed, without a dotted end (RFC 5952, as serialized
 * by the URL standard).
 */
const canonical = (address: string): string => new URL(`http://[${address}]`).hostname.slice(1, -1);

const groupsOf = (text: string): string[] => (text === '' ? [] : text.split(':'));

function unmapped(address: string): string | undefined {
  const [, high, low] = MAPPED.exec(address) ?? [];
  if (high === undefined || low === undefined) return undefined;
  const bytes = Buffer.from(high.padStart(4, '0') + low.padStart(4, '0'), 'hex');
  return bytes.join('.');
}

/**
 * Returns an IPv4 address unchanged and the first 64 bits of an IPv6 address, because a subscriber is assigned at least a
 * whole /64 (RFC 6177 §2). Text that is not an address is returned unchanged.
 */
export function addressPrefix(address: string): string {
  const plain = address.replace(/%.*$/, '');
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const written = canonical(plain);
  const [head = '', tail = ''] = written.split('::', 2);
  const [first, last] = [groupsOf(head), groupsOf(tail)];
  const gap = Array.from({ length: IPV6_GROUPS - first.length - last.length }, () => '0');
  return unmapped(written) ?? `${[...first, ...gap, ...last].slice(0, PREFIX_GROUPS).join(':')}::/64`;
}
