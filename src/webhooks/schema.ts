/** What a body of a webhook may say: the shape of PUT and POST (`whole`) and of PATCH (`part`). */
import { Type, type Static } from 'typebox';
import { resourceTypes } from '#commerce/catalogue.ts';

export const FORMATS = ['json', 'partner_automation', 'partner_sitebuilder'] as const;
export const RETRY_PROFILES = ['hour', 'long'] as const;

const NAME_LENGTH_MAX = 255;
const TEXT_LENGTH_MAX = 1_000;
const EVENTS_MAX = 100;
const EVENT_LENGTH_MAX = 100;
const HEADERS_MAX = 20;
const HEADER_VALUE_LENGTH_MAX = 1_000;
const RATE_PER_SECOND_MAX = 1_000;

/** `null` and `""` clear it. Lengths count code points. */
const clearableText = () =>
  Type.Optional(Type.Unsafe<string | null>({ type: ['string', 'null'], maxLength: TEXT_LENGTH_MAX }));

const clearableChoice = <Choice extends string>(choices: readonly Choice[]) =>
  Type.Optional(Type.Unsafe<Choice | '' | null>({ enum: [...choices, '', null] }));

/** Taken back with whatever value it was read, and ignored. */
const readOnly = () => Type.Optional(Type.Unknown({ readOnly: true }));

/** A form has no booleans and no numbers, so their texts count too. */
const flag = () => Type.Optional(Type.Unsafe<Flag>({ enum: ['1', '0', 1, 0, true, false, 'true', 'false'] }));
export type Flag = '1' | '0' | 1 | 0 | boolean | 'true' | 'false';

/** Each version as text, and as the number it spells. */
const versionChoices = (versions: readonly string[]): (string | number)[] =>
  versions.flatMap((version) => (String(Number(version)) === version ? [version, Number(version)] : [version]));

/** The schemas for the payload versions that the operator's setting allows. */
export const createSchemas = (versions: readonly string[]) => {
  const required = {
    name: Type.String({ minLength: 1, maxLength: NAME_LENGTH_MAX }),
    format: Type.Unsafe<(typeof FORMATS)[number]>({ enum: FORMATS }),
  };
  const optional = {
    version: Type.Optional(Type.Unsafe<string | number | null>({ enum: [...versionChoices(versions), '', null] })),
    url: clearableText(),
    query: clearableText(),
    encryption_key: clearableText(),
    event_resource: clearableChoice(resourceTypes),
    events: Type.Optional(Type.Array(Type.String({ maxLength: EVENT_LENGTH_MAX }), { maxItems: EVENTS_MAX })),
    is_active: flag(),
    headers: Type.Optional(
      Type.Unsafe<Record<string, string> | null>({
        type: ['object', 'null'],
        patternProperties: { '^': { type: 'string', maxLength: HEADER_VALUE_LENGTH_MAX } },
        maxProperties: HEADERS_MAX,
      }),
    ),
    rate_per_second: Type.Optional(
      Type.Unsafe<number | null>({ type: ['integer', 'null'], minimum: 1, maximum: RATE_PER_SECOND_MAX }),
    ),
    retry_profile: clearableChoice(RETRY_PROFILES),
    id: readOnly(),
    state: readOnly(),
    date_created: readOnly(),
    date_modified: readOnly(),
  };
  return {
    whole: Type.Object({ ...required, ...optional }, { additionalProperties: false }),
    part: Type.Object(
      { name: Type.Optional(required.name), format: Type.Optional(required.format), ...optional },
      { additionalProperties: false },
    ),
  };
};

export type Schemas = ReturnType<typeof createSchemas>;
export type WebhookPart = Static<Schemas['part']>;
