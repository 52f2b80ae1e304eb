/** The settings of a store, with the limits of the platform, and its Document. */
import {
  propertiesOf,
  comparisonsOf,
  parserOf,
  schemasOf,
  settingsOf,
  type Fields,
  type PartOf,
  type SettingsOf,
} from '#http/field-table.ts';
import type { Document } from '#hypermedia/document.ts';
import { externalIdHints } from '#http/external-keys.ts';
import { isBlank, isLonger } from '#core/text.ts';
import { EMAIL_LENGTH_MAX, isEmail } from '#core/email.ts';
import { invalidValue, type Fault } from '#core/problem.ts';
import type { StoreRow } from './stores-sql.ts';

const NAME_LENGTH_MAX = 255;
const DOMAIN_LENGTH_MAX = 253;

/** Whether Halcyon derives the lifecycle events of subscriptions or the platform publishes them. */
export const SUBSCRIPTION_EVENTS = ['derived', 'published'] as const;
/** Whether every member of the store needs a second factor. */
const SECOND_FACTOR = ['optional', 'required'] as const;

export const storeFields = {
  id: { kind: 'number' },
  name: {
    kind: 'text',
    input: { isRequired: true, minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'The name of the store.' },
  },
  domain: {
    kind: 'text',
    input: {
      isRequired: true,
      minLength: 1,
      maxLength: DOMAIN_LENGTH_MAX,
      description: 'The host name of the shop, such as shop.example.com.',
    },
  },
  email: {
    kind: 'text',
    input: { isRequired: true, maxLength: EMAIL_LENGTH_MAX, description: 'The address for mails about the store.' },
  },
  time_zone: {
    kind: 'text',
    input: {
      isRequired: true,
      minLength: 1,
      description: 'The IANA time zone, such as Europe/Berlin, in which the dates of the store are shown.',
    },
  },
  date_created: { kind: 'date' },
  date_modified: { kind: 'date' },
  // Last, because tables of stores show only the first columns.
  subscription_events: {
    kind: 'enumeration',
    choices: SUBSCRIPTION_EVENTS,
    input: {
      description: 'Whether Halcyon derives subscription events or the platform publishes them; set by the platform.',
      isOfPlatform: true,
    },
  },
  second_factor: {
    kind: 'enumeration',
    choices: SECOND_FACTOR,
    input: {
      description: 'Whether every member needs a second factor to sign in; set by owners.',
      isSensitive: true,
    },
  },
  /** Belongs to a developer, who makes sample events in it. */
  is_sandbox: { kind: 'boolean', from: 'sql' },
  /** The key of the client of the platform that reads the store; null for other callers. */
  external_id: {
    kind: 'text',
    isNullable: true,
    from: 'sql',
    input: { isClearable: true, ...externalIdHints('store') },
  },
} as const satisfies Fields;

export type StoreDetails = SettingsOf<typeof storeFields>;
export type StorePart = PartOf<typeof storeFields>;

export const STORE_PROPERTIES = comparisonsOf(storeFields);
export const storeSchemas = schemasOf(storeFields, {});
const parseStore = parserOf(storeFields);
const pickDetails = settingsOf(storeFields);

/** Returns the details after applying the members of the body. */
export function detailsOf(present: StoreDetails, body: StorePart): StoreDetails {
  return { ...pickDetails(present), ...parseStore(body) };
}

/** Labels of letters, digits and inner hyphens, at most 63 characters each (RFC 1123 §2.1). */
const DOMAIN_NAME = /^(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*$/i;

/**
 * Returns the name of the time zone in the spelling of the IANA database; undefined if it does not exist. An offset such as
 * `+01:00` is rejected because of daylight saving time. An alias is kept, which Intl would replace by the zone that it stands
 * for.
 */
export function readTimeZone(name: string): string | undefined {
  if (!/^[A-Za-z]/.test(name)) return undefined;
  try {
    return new Temporal.ZonedDateTime(0n, name).timeZoneId;
  } catch {
    return undefined;
  }
}

/** Returns all faults of a store's details, each under the name of its property. */
export function storeFaults(details: StoreDetails): Fault[] {
  const { name, domain, email, timeZone, subscriptionEvents, secondFactor } = details;
  const faults: Fault[] = [];
  const check = (isValid: boolean, field: string, message: string): void => {
    if (!isValid) faults.push(invalidValue(field, `${field} ${message}`));
  };
  const isNamed = !isBlank(name) && !isLonger(name, NAME_LENGTH_MAX);
  check(isNamed, 'name', `must be 1 to ${NAME_LENGTH_MAX} characters, not only blanks`);
  const isDomain = domain.length <= DOMAIN_LENGTH_MAX && DOMAIN_NAME.test(domain);
  check(isDomain, 'domain', `must be a host name such as shop.example.com, at most ${DOMAIN_LENGTH_MAX} characters`);
  check(isEmail(email), 'email', `must be an address such as ada@example.com, at most ${EMAIL_LENGTH_MAX} characters`);
  check(readTimeZone(timeZone) !== undefined, 'time_zone', 'must be an IANA time zone such as Europe/Berlin');
  check(
    SUBSCRIPTION_EVENTS.includes(subscriptionEvents),
    'subscription_events',
    `must be ${SUBSCRIPTION_EVENTS.join(' or ')}`,
  );
  check(SECOND_FACTOR.includes(secondFactor), 'second_factor', `must be ${SECOND_FACTOR.join(' or ')}`);
  return faults;
}

/**
 * Returns the shard of a store, from the number in its id: Fibonacci hashing, the top eight bits of n · 2³²/φ. With n % 256
 * some shards would stay empty, because the numbers are shared with other tables and follow a pattern.
 */
export function shardOfNumber(n: number): number {
  return Math.imul(n % 2 ** 31, 0x9e37_79b1) >>> 24;
}

export function addressOfStore(storeId: number, baseUrl: string): string {
  return `${baseUrl}/stores/${storeId}`;
}

/** A collection of published resources: `name` is its path segment and relation, `words` its display name, `onlyIn` the only store with it. */
export type PublishedCollection = { name: string; words: string; onlyIn?: number };

const ownCollections = [
  ...['webhooks', 'events', 'members'].map((name) => ({ name, words: name })),
  { name: 'grants', words: 'connected apps' },
];

const describe = propertiesOf(storeFields);

/** Returns the Document of a store, with dates in its time zone. `isForPlatform`: with what only the platform can do. */
export function storeDocument(
  store: StoreRow,
  context: { baseUrl: string; collections: readonly PublishedCollection[]; isForPlatform?: boolean },
): Document {
  const self = addressOfStore(store.id, context.baseUrl);
  const linkOf = ({ name, words }: PublishedCollection) => ({
    rel: name,
    href: `${self}/${name}`,
    title: `All ${words} of this store`,
  });
  return {
    name: 'store',
    title: store.name,
    version: store.revision,
    links: [
      { rel: 'self', href: self, title: 'This store' },
      { rel: 'overview', href: `${self}/overview`, title: 'The overview of this store' },
      { rel: 'statuses', href: `${self}/statuses`, title: 'The deliveries of this store' },
      ...[...ownCollections, ...context.collections]
        .filter(({ onlyIn = store.id }: PublishedCollection) => onlyIn === store.id)
        .map(linkOf),
      ...(context.isForPlatform === true
        ? [
            { rel: 'load', href: `${self}/load`, title: 'Load history' },
            { rel: 'links', href: `${self}/links`, title: 'Make a link to the pages of this store' },
          ]
        : []),
      ...(store.isSandbox
        ? [{ rel: 'sample_events', href: `${self}/sample_events`, title: 'Make sample events in this sandbox store' }]
        : []),
    ],
    embedded: [],
    properties: describe(store, store.timeZone, {}),
  };
}
