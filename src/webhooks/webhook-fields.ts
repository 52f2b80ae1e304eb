/** The properties of a webhook, and what is derived from them: schemas, settings and their parsing. */
import { allEvents, resourceTypes } from '#catalog/catalog.ts';
import type { Headers } from '#core/request-secrets.ts';
import {
  comparisonsOf,
  defaultsOf,
  parserOf,
  schemasOf,
  settingsOf,
  type DraftOf,
  type Fields,
  type InputOf,
  type PartOf,
  type SettingsOf,
  type ValueOf,
} from '#http/field-table.ts';

export const URL_LENGTH_MAX = 1_000;
const TEXT_LENGTH_MAX = 1_000;
const NO_HEADERS: Headers = {};

export const WEBHOOK_STATES = ['ok', 'failing', 'paused', 'inactive'] as const;
export type WebhookState = (typeof WEBHOOK_STATES)[number];

export const webhookFields = {
  id: { kind: 'number' },
  name: {
    kind: 'text',
    input: { isRequired: true, minLength: 1, maxLength: 255, description: 'The name of the webhook.' },
  },
  format: {
    kind: 'enumeration',
    choices: ['json', 'partner_automation', 'partner_sitebuilder', 'cloudevents', 'cloudevents_binary'],
    input: {
      isRequired: true,
      description:
        'The body format: the full representation as JSON, the format of one of the partners, or CloudEvents 1.0 in structured or binary mode.',
    },
  },
  version: {
    kind: 'text',
    initial: '2',
    input: {
      choices: 'given',
      isClearable: true,
      isMinor: true,
      description: 'The version of the body format. Normally left unchanged.',
    },
  },
  url: {
    kind: 'url',
    isNullable: true,
    input: {
      isClearable: true,
      maxLength: URL_LENGTH_MAX,
      isMain: true,
      // Headers, the query and a bearer key are sent to it.
      isSensitive: true,
      description: 'The http or https address that receives the events. Without it nothing is sent.',
    },
  },
  query: {
    kind: 'text',
    isNullable: true,
    input: {
      isClearable: true,
      maxLength: TEXT_LENGTH_MAX,
      kind: 'code',
      isMinor: true,
      description: 'The shape of the body, such as zoom=items,customer&fields=id,total_order&links=self.',
    },
  },
  /** Conditions on the published resource; null sends every event. */
  filter: {
    kind: 'text',
    isNullable: true,
    input: {
      isClearable: true,
      maxLength: TEXT_LENGTH_MAX,
      kind: 'code',
      isMinor: true,
      description:
        'Which of these events are sent, by the resource, such as total_order:greaterthan=100&currency_code=EUR. Without it, all of them.',
    },
  },
  encryption_key: {
    kind: 'secret',
    isNullable: true,
    input: {
      isClearable: true,
      maxLength: TEXT_LENGTH_MAX,
      isGenerated: true,
      description: 'The key that signs deliveries, and encrypts them over plain http. Required by the format json.',
    },
  },
  /** Replaces the current key when the rotation ends; null, like the date, if no rotation is active. */
  next_encryption_key: { kind: 'secret', isNullable: true, isAudited: true },
  rotation_ends: { kind: 'date', isNullable: true, column: 'rotation_ends_at', filterBy: 'sql', isAudited: true },
  /** The public keys of Ed25519 keys. */
  public_key: { kind: 'code', isNullable: true, from: 'code', comparison: 'none' },
  next_public_key: { kind: 'code', isNullable: true, from: 'code', comparison: 'none' },
  event_resource: {
    kind: 'enumeration',
    isNullable: true,
    choices: resourceTypes,
    input: {
      isClearable: true,
      isMain: true,
      description: 'The resource whose events are sent. Without events, all events of that resource.',
    },
  },
  events: {
    kind: 'list',
    choices: allEvents,
    initial: [],
    input: {
      maxItems: 100,
      maxLength: 100,
      isMain: true,
      description: 'The events that are sent, all of one resource.',
    },
  },
  is_active: { kind: 'flag', initial: true, input: { isMinor: true, description: 'Whether events are sent.' } },
  /** Why Halcyon disabled it: its deliveries kept failing, its endpoint answered 410, or its app lost access; else null. */
  inactive_reason: {
    kind: 'enumeration',
    isNullable: true,
    choices: ['failures', 'gone', 'access_ended', 'suspended'],
    isAudited: true,
  },
  is_held: {
    kind: 'flag',
    input: {
      description:
        'Pull webhook: has no url, and its deliveries wait until a listener fetches them. Fixed at creation.',
      isForPrograms: true,
      isFixed: true,
    },
  },
  /** A null value cannot be decrypted, or the request leaves it unchanged. */
  headers: {
    kind: 'json',
    initial: NO_HEADERS,
    input: {
      isClearable: true,
      patternProperties: { '^': { type: ['string', 'null'], maxLength: 1_000 } },
      maxProperties: 20,
      isMinor: true,
      // A header may be a credential of the receiver.
      isSensitive: true,
      description: 'Additional request headers: names and values.',
    },
  },
  rate_per_second: {
    kind: 'number',
    isNullable: true,
    input: {
      isClearable: true,
      minimum: 1,
      maximum: 1_000,
      isMinor: true,
      description: 'The maximum number of deliveries per second.',
    },
  },
  retry_profile: {
    kind: 'enumeration',
    choices: ['hour', 'long'],
    initial: 'hour',
    input: {
      isClearable: true,
      isMinor: true,
      description: 'How long failed deliveries are retried: for an hour, or for days.',
    },
  },
  ordering: {
    kind: 'enumeration',
    isNullable: true,
    choices: ['resource'],
    input: {
      isClearable: true,
      isMinor: true,
      description:
        'resource: an event is sent when the one before it of the same resource has been delivered or has failed for good. Without it, an event that is retried arrives after later ones.',
    },
  },
  state: { kind: 'enumeration', choices: WEBHOOK_STATES, from: 'code' },
  reason: { kind: 'text', isNullable: true, from: 'code', comparison: 'none' },
  date_created: { kind: 'date' },
  date_modified: { kind: 'date' },
} as const satisfies Fields;
type WebhookFields = typeof webhookFields;

export type Settings = SettingsOf<WebhookFields>;

/** Settings whose name and format may be missing: the starting point of a new or replaced webhook. */
export type Draft = DraftOf<WebhookFields>;

/** The settings that a request names; others are absent. */
export type WebhookInput = InputOf<WebhookFields>;
export type WebhookPart = PartOf<WebhookFields>;
export type InactiveReason = NonNullable<ValueOf<WebhookFields['inactive_reason']>>;

/**
 * The subscription of a webhook, which `event_resource` and `events` express in two ways. `events` is the effective list; it is
 * empty only if there is no resource.
 */
export type Subscription = Pick<Settings, 'eventResource' | 'events'>;

export const defaults = defaultsOf(webhookFields);
export const WEBHOOK_PROPERTIES = comparisonsOf(webhookFields);

/** Returns the members of a body as settings. Empty values become `null` or the default, flags become booleans. */
export const parseInput = parserOf(webhookFields);
export const settingsOfRow = settingsOf(webhookFields);

/** Returns each version as a string and, if it is numeric, as a number. */
const versionChoices = (versions: readonly string[]): (string | number)[] =>
  versions.flatMap((version) => (String(Number(version)) === version ? [version, Number(version)] : [version]));

/** Returns the schemas for the payload versions that the operator's setting allows. */
export function createSchemas(versions: readonly string[]) {
  return schemasOf(webhookFields, { version: versionChoices(versions) });
}
export type Schemas = ReturnType<typeof createSchemas>;
