/**
 * Buckets that slow guessing, in PostgreSQL, so that they hold across processes and restarts. A bucket starts full,
 * a try takes one out, and one comes back every so often (the generic cell rate algorithm, which needs one column).
 *
 * Not rate-limiter-flexible: it reads the wall clock itself, and sends SQL that no room could see.
 */
import { createHash } from 'node:crypto';
import type { Sql } from '#database/pool.ts';
import { giveBack, takeOne } from './queries.ts';

type Limit = { tries: number; refillSeconds: number };

/** How many tries a full bucket holds, and how long it takes until one comes back. */
const limits = {
  /** Failed sign-ins from one address prefix, whomever they were for: an office behind one address is many people. */
  'sign-in from address': { tries: 50, refillSeconds: 20 },
  /** Failed sign-ins for one account from browsers that never signed in to it. */
  'sign-in to account': { tries: 10, refillSeconds: 60 },
  /** Failed sign-ins from a browser that did: its owner is not held up by others' guessing. */
  'sign-in by device': { tries: 10, refillSeconds: 60 },
  /** Mails to one account. */
  'mail to account': { tries: 3, refillSeconds: 1_200 },
  'mail from address': { tries: 20, refillSeconds: 180 },
  /** Failed authentications of one client from one address prefix. */
  'client from address': { tries: 20, refillSeconds: 30 },
  /** Clients registered through the protocol from one address prefix. */
  'registration from address': { tries: 20, refillSeconds: 180 },
} as const satisfies Record<string, Limit>;

/** `subject` is who or what is counted; it is stored as a hash. */
export type Bucket = { limit: keyof typeof limits; subject: string };

export type Taken =
  | { allowed: true; /** For a try that was no guess: it did not count. */ giveBack: () => Promise<void> }
  | { allowed: false; retryAfterSeconds: number };

export type Throttle = {
  /** One statement. Takes one out of each bucket; not allowed where one of them is empty. */
  take: (buckets: readonly Bucket[], now: Date) => Promise<Taken>;
};

const keyOf = ({ limit, subject }: Bucket): Buffer => createHash('sha256').update(`${limit}\0${subject}`).digest();

/**
 * The try is taken before it is judged and given back when it was right: of a hundred guesses at once no more are judged
 * than the bucket holds.
 */
export const createThrottle = ({ sql }: { sql: Sql }): Throttle => ({
  take: async (buckets, now) => {
    const asked = buckets.map((bucket) => ({ key: keyOf(bucket), ...limits[bucket.limit] }));
    const levels = await takeOne(sql, asked, now);
    const waits = levels.filter(({ taken }) => !taken).map(({ waitSeconds }) => waitSeconds);
    if (waits.length > 0) return { allowed: false, retryAfterSeconds: Math.max(1, ...waits.map(Math.ceil)) };
    return { allowed: true, giveBack: () => giveBack(sql, asked) };
  },
});
