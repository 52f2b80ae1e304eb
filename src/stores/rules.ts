/** What a store may be called and where it may live: pure, and every fault of a store is found at once. */
import { isBlank } from '#core/blank.ts';
import { EMAIL_LENGTH_MAX, isEmail } from '#core/email.ts';
import { isLonger } from '#core/length.ts';
import type { Fault } from '#core/problem.ts';

/** Who publishes the steps in the lives of subscriptions: Halcyon derives them, or the platform tells them itself. */
export const SUBSCRIPTION_EVENTS = ['derived', 'published'] as const;
export type SubscriptionEvents = (typeof SUBSCRIPTION_EVENTS)[number];

export type StoreDetails = {
  name: string;
  domain: string;
  email: string;
  timeZone: string;
  subscriptionEvents: SubscriptionEvents;
};

export const NAME_LENGTH_MAX = 255;
export const DOMAIN_LENGTH_MAX = 253;

/** Labels of letters, digits and inner hyphens, at most 63 each (RFC 1123 §2.1). */
const DOMAIN = /^(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*$/i;

/**
 * The zone's name in the spelling of the IANA data base; undefined where there is no such zone. An offset such as
 * `+01:00` is no zone: it would be wrong for half of the year. An alias stays one, which Intl would resolve to the zone that
 * it stands for.
 */
export const readTimeZone = (name: string): string | undefined => {
  if (!/^[A-Za-z]/.test(name)) return undefined;
  try {
    return new Temporal.ZonedDateTime(0n, name).timeZoneId;
  } catch {
    return undefined;
  }
};

/** Everything that is wrong with a store's details, each named after its property. */
export const storeFaults = ({ name, domain, email, timeZone, subscriptionEvents }: StoreDetails): Fault[] => {
  const faults: Fault[] = [];
  const require = (holds: boolean, field: string, message: string): void => {
    if (!holds) faults.push({ code: 'invalid_value', message: `${field} ${message}`, field });
  };
  const isNamed = !isBlank(name) && !isLonger(name, NAME_LENGTH_MAX);
  require(isNamed, 'name', `must be 1 to ${NAME_LENGTH_MAX} characters, not blanks alone`);
  const isDomain = domain.length <= DOMAIN_LENGTH_MAX && DOMAIN.test(domain);
  require(isDomain, 'domain', `must be a host name such as shop.example.com, at most ${DOMAIN_LENGTH_MAX} characters`);
  require(isEmail(
    email,
  ), 'email', `must be an address such as ada@example.com, at most ${EMAIL_LENGTH_MAX} characters`);
  require(readTimeZone(timeZone) !== undefined, 'time_zone', 'must be an IANA time zone such as Europe/Berlin');
  require(SUBSCRIPTION_EVENTS.includes(
    subscriptionEvents,
  ), 'subscription_events', `must be ${SUBSCRIPTION_EVENTS.join(' or ')}`);
  return faults;
};

/**
 * The shard of a store, from the number its id is made of: Fibonacci hashing, the top eight bits of n · 2³²/φ. Taking
 * n % 256 would leave shards empty, because the numbers are shared with other tables and come in a rhythm.
 */
export const shardOfNumber = (n: number): number => Math.imul(n % 2 ** 31, 0x9e37_79b1) >>> 24;
