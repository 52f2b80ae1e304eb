/**
 * Buckets that slow guessing, in PostgreSQL, so that they hold across processes and restarts. A bucket starts full,
 * a try takes one out, and one comes back every so often (the generic cell rate algorithm, which needs one column).
 *
 * Not rate-limiter-flexible: it reads the wall clock itself, and sends SQL that no room could see.
 */
import { createHash } from 'node:crypto';
import type { Sql } from '#db/pool.ts';
import { fullAt, giveBack, takeOne, type AskedBucket } from './throttle-sql.ts';

type Limit = { tries: number; refillSeconds: number };

/** How many tries a full bucket holds, and how long it takes until one comes back. */
const limits = {
  /** Failed sign-ins from one address prefix, whomever they were for: an office behind one address is many people. */
  'sign-in from address': { tries: 50, refillSeconds: 20 },
  /** Failed sign-ins for one account from browsers that never signed in to it. */
  'sign-in to account': { tries: 10, refillSeconds: 60 },
  /** Failed sign-ins from a browser that did: its owner is not held up by others' guessing. */
  'sign-in by device': { tries: 10, refillSeconds: 60 },
  /** Failed sign-ins from all browsers that did, for whoever has collected their cookies. */
  'sign-in by any device': { tries: 30, refillSeconds: 20 },
  /** Mails to one account: a few at once, and in the long run one before the link of the last has run out. */
  'mail to account': { tries: 3, refillSeconds: 1_200 },
  'mails to account a day': { tries: 6, refillSeconds: 3_000 },
  'mail from address': { tries: 20, refillSeconds: 180 },
  /** Addresses with which nobody signs in, tried by one owner of stores who adds members. */
  'unknown members by person': { tries: 20, refillSeconds: 180 },
  /** Failed authentications of one client from one address prefix. */
  'client from address': { tries: 20, refillSeconds: 30 },
  /** Clients registered through the protocol from one address prefix. */
  'registration from address': { tries: 20, refillSeconds: 180 },
  /** Clients registered with one registration token: it may have leaked. */
  'registration by token': { tries: 100, refillSeconds: 180 },
} as const satisfies Record<string, Limit>;

/** `subject` is who or what is counted; it is stored as a hash. */
export type Bucket = { limit: keyof typeof limits; subject: string };

type Taken =
  | { allowed: true; /** For a try that was no guess: it did not count. */ giveBack: () => Promise<void> }
  | { allowed: false; retryAfterSeconds: number };

export type Throttle = {
  /**
   * Takes one out of each bucket in the order given, a statement each; not allowed where one of them is empty. The ones
   * after that are not touched and the ones before get theirs back: a try that is refused counts nowhere, or somebody who
   * has used up the tries of an address could go on emptying everybody's account from it.
   */
  take: (buckets: readonly Bucket[], now: Date) => Promise<Taken>;
};

const keyOf = ({ limit, subject }: Bucket): Buffer => createHash('sha256').update(`${limit}\0${subject}`).digest();

/** How long until an empty bucket holds one again; at least a second, however late its level was read. */
const untilOne = (bucket: AskedBucket, full: Date | undefined, now: Date): number => {
  const fullInSeconds = ((full ?? now).getTime() - now.getTime()) / 1_000;
  return Math.max(1, Math.ceil(fullInSeconds - bucket.refillSeconds * (bucket.tries - 1)));
};

/**
 * The try is taken before it is judged and given back when it was right: of a hundred guesses at once no more are judged
 * than the bucket holds.
 */
export const createThrottle = ({ sql }: { sql: Sql }): Throttle => ({
  take: async (buckets, now) => {
    const taken: AskedBucket[] = [];
    const returnAll = async (): Promise<void> => {
      for (const bucket of taken) await giveBack(sql, bucket);
    };
    for (const bucket of buckets.map((asked) => ({ key: keyOf(asked), ...limits[asked.limit] }))) {
      if (await takeOne(sql, bucket, now)) {
        taken.push(bucket);
        continue;
      }
      await returnAll();
      return { allowed: false, retryAfterSeconds: untilOne(bucket, await fullAt(sql, bucket), now) };
    }
    return { allowed: true, giveBack: returnAll };
  },
});
