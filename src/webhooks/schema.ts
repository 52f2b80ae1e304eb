/** The schemas of a webhook's body: POST and PUT (`whole`) and PATCH (`part`). */
import { Type, type Static } from 'typebox';
import { allEvents, resourceTypes } from '#catalog/catalog.ts';
import { clearableChoice, clearableText, flag, readOnly } from '#http/inputs.ts';
import { defaults } from './webhook.ts';

export const FORMATS = [
  'json',
  'partner_automation',
  'partner_sitebuilder',
  'cloudevents',
  'cloudevents_binary',
] as const;
export const ORDERINGS = ['resource'] as const;
export const RETRY_PROFILES = ['hour', 'long'] as const;

const NAME_LENGTH_MAX = 255;
const TEXT_LENGTH_MAX = 1_000;
export const URL_LENGTH_MAX = TEXT_LENGTH_MAX;
const EVENTS_MAX = 100;
const EVENT_LENGTH_MAX = 100;
const HEADERS_MAX = 20;
const HEADER_VALUE_LENGTH_MAX = 1_000;
const RATE_PER_SECOND_MAX = 1_000;

/** Returns each version as a string and, if it is numeric, as a number. */
const versionChoices = (versions: readonly string[]): (string | number)[] =>
  versions.flatMap((version) => (String(Number(version)) === version ? [version, Number(version)] : [version]));

const required = {
  name: Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'The name of the webhook.' }),
  format: Type.Unsafe<(typeof FORMATS)[number]>({
    enum: FORMATS,
    description:
      'The body format: the full representation as JSON, the format of one of the partners, or CloudEvents 1.0 in structured or binary mode.',
  }),
};

type Initial = Partial<Record<'is_active' | 'retry_profile' | 'version', string>>;

/** Defaults that the schema of POST and PUT shows; a PATCH leaves absent properties unchanged. */
const initially: Initial = {
  is_active: defaults.isActive ? '1' : '0',
  retry_profile: defaults.retryProfile,
  version: defaults.version,
};

const version = (versions: readonly string[], initial: Initial) =>
  Type.Optional(
    Type.Unsafe<string | number | null>({
      enum: [...versionChoices(versions), '', null],
      isMinor: true,
      description: 'The version of the body format. Normally left unchanged.',
      default: initial.version,
    }),
  );

const filter = clearableText({
  maxLength: TEXT_LENGTH_MAX,
  kind: 'code',
  isMinor: true,
  description:
    'Which of these events are sent, by the resource, such as total_order:greaterthan=100&currency_code=EUR. Without it, all of them.',
});

const ordering = clearableChoice(ORDERINGS, {
  isMinor: true,
  description:
    'resource: an event is sent when the one before it of the same resource has been delivered or has failed for good. Without it, an event that is retried arrives after later ones.',
});

const optional = (versions: readonly string[], initial: Initial) => ({
  url: clearableText({
    maxLength: URL_LENGTH_MAX,
    kind: 'url',
    // Headers, the query and a bearer key are sent to it.
    isSensitive: true,
    description: 'The http or https address that receives the events. Without it nothing is sent.',
  }),
  event_resource: clearableChoice(resourceTypes(), {
    description: 'The resource whose events are sent. Without events, all events of that resource.',
  }),
  events: Type.Optional(
    Type.Array(Type.String({ maxLength: EVENT_LENGTH_MAX, choices: allEvents() }), {
      maxItems: EVENTS_MAX,
      description: 'The events that are sent, all of one resource.',
    }),
  ),
  is_active: flag({ description: 'Whether events are sent.', default: initial.is_active }),
  is_held: flag({
    description: 'Pull webhook: has no url, and its deliveries wait until a listener fetches them. Fixed at creation.',
    isForPrograms: true,
  }),
  encryption_key: clearableText({
    maxLength: TEXT_LENGTH_MAX,
    kind: 'secret',
    isGenerated: true,
    description: 'The key that signs deliveries, and encrypts them over plain http. Required by the format json.',
  }),
  query: clearableText({
    maxLength: TEXT_LENGTH_MAX,
    kind: 'code',
    isMinor: true,
    description: 'The shape of the body, such as zoom=items,customer&fields=id,total_order.',
  }),
  filter,
  headers: Type.Optional(
    Type.Unsafe<Record<string, string | null> | null>({
      type: ['object', 'null'],
      patternProperties: { '^': { type: ['string', 'null'], maxLength: HEADER_VALUE_LENGTH_MAX } },
      maxProperties: HEADERS_MAX,
      isMinor: true,
      // A header may be a credential of the receiver.
      isSensitive: true,
      description: 'Additional request headers: names and values.',
    }),
  ),
  rate_per_second: Type.Optional(
    Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 1,
      maximum: RATE_PER_SECOND_MAX,
      isMinor: true,
      description: 'The maximum number of deliveries per second.',
    }),
  ),
  retry_profile: clearableChoice(RETRY_PROFILES, {
    isMinor: true,
    description: 'How long failed deliveries are retried: for an hour, or for days.',
    default: initial.retry_profile,
  }),
  ordering,
  version: version(versions, initial),
  id: readOnly(),
  next_encryption_key: readOnly(),
  rotation_ends: readOnly(),
  state: readOnly(),
  inactive_reason: readOnly(),
  reason: readOnly(),
  date_created: readOnly(),
  date_modified: readOnly(),
});

/** The schemas for the payload versions that the operator's setting allows. */
export function createSchemas(versions: readonly string[]) {
  const { name, format } = required;
  return {
    whole: Type.Object({ name, format, ...optional(versions, initially) }, { additionalProperties: false }),
    part: Type.Object(
      { name: Type.Optional(name), format: Type.Optional(format), ...optional(versions, {}) },
      { additionalProperties: false },
    ),
  };
}

export type Schemas = ReturnType<typeof createSchemas>;
export type WebhookPart = Static<Schemas['part']>;
