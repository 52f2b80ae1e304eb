/** What a body of a webhook may say: the shape of PUT and POST (`whole`) and of PATCH (`part`). */
import { Type, type Static } from 'typebox';
import { eventsOf, resourceTypes } from '#catalog/catalog.ts';
import { clearableChoice, clearableText, flag, readOnly } from '#http/inputs.ts';
import { defaults } from './webhook.ts';

export const FORMATS = ['json', 'partner_automation', 'partner_sitebuilder'] as const;
export const RETRY_PROFILES = ['hour', 'long'] as const;

const NAME_LENGTH_MAX = 255;
const TEXT_LENGTH_MAX = 1_000;
export const URL_LENGTH_MAX = TEXT_LENGTH_MAX;
const EVENTS_MAX = 100;
const EVENT_LENGTH_MAX = 100;
const HEADERS_MAX = 20;
const HEADER_VALUE_LENGTH_MAX = 1_000;
const RATE_PER_SECOND_MAX = 1_000;

/** Each version as text, and as the number it spells. */
const versionChoices = (versions: readonly string[]): (string | number)[] =>
  versions.flatMap((version) => (String(Number(version)) === version ? [version, Number(version)] : [version]));

const required = {
  name: Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX, description: 'What you call it.' }),
  format: Type.Unsafe<(typeof FORMATS)[number]>({
    enum: FORMATS,
    description: 'What is sent: the whole representation as JSON, or the form that one of the partners takes.',
  }),
};

type Initial = Partial<Record<'is_active' | 'retry_profile' | 'version', string>>;

/** What it is where a new or replaced one says nothing. Of a change that is what stands there. */
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
      description: 'The version of what is sent. Leave it as it is.',
      default: initial.version,
    }),
  );

const optional = (versions: readonly string[], initial: Initial) => ({
  url: clearableText({
    maxLength: URL_LENGTH_MAX,
    kind: 'url',
    description: 'Where it is sent: an http or https address. Without one nothing is sent.',
  }),
  event_resource: clearableChoice(resourceTypes, {
    description: 'What it is about. Alone it means every event of that resource.',
  }),
  events: Type.Optional(
    Type.Array(Type.String({ maxLength: EVENT_LENGTH_MAX, choices: resourceTypes.flatMap(eventsOf) }), {
      maxItems: EVENTS_MAX,
      description: 'Which events it is sent for, all of one resource.',
    }),
  ),
  is_active: flag({ description: 'While it is not, nothing is sent.', default: initial.is_active }),
  is_held: flag({
    description:
      'Has no url: what it is sent is held until a listener fetches it. Chosen when it is made, and for good.',
    isForPrograms: true,
  }),
  encryption_key: clearableText({
    maxLength: TEXT_LENGTH_MAX,
    kind: 'secret',
    isGenerated: true,
    description: 'What deliveries are signed with, and encrypted over plain http. The format json requires it.',
  }),
  query: clearableText({
    maxLength: TEXT_LENGTH_MAX,
    kind: 'code',
    isMinor: true,
    description: 'The shape of what is sent, such as zoom=items,customer&fields=id,total_order.',
  }),
  headers: Type.Optional(
    Type.Unsafe<Record<string, string | null> | null>({
      type: ['object', 'null'],
      patternProperties: { '^': { type: ['string', 'null'], maxLength: HEADER_VALUE_LENGTH_MAX } },
      maxProperties: HEADERS_MAX,
      isMinor: true,
      description: 'Headers that are sent along: a name and a value each.',
    }),
  ),
  rate_per_second: Type.Optional(
    Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 1,
      maximum: RATE_PER_SECOND_MAX,
      isMinor: true,
      description: 'At most so many deliveries a second.',
    }),
  ),
  retry_profile: clearableChoice(RETRY_PROFILES, {
    isMinor: true,
    description: 'How long it is tried again: for an hour, or for days.',
    default: initial.retry_profile,
  }),
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
export const createSchemas = (versions: readonly string[]) => {
  const { name, format } = required;
  return {
    whole: Type.Object({ name, format, ...optional(versions, initially) }, { additionalProperties: false }),
    part: Type.Object(
      { name: Type.Optional(name), format: Type.Optional(format), ...optional(versions, {}) },
      { additionalProperties: false },
    ),
  };
};

export type Schemas = ReturnType<typeof createSchemas>;
export type WebhookPart = Static<Schemas['part']>;
