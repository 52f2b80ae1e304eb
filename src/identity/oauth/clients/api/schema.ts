/** What a body may say of a client. */
import { Type, type Static } from 'typebox';
import { clearableText, flag, readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { DESCRIPTION_LENGTH_MAX, NAME_LENGTH_MAX } from '../rules.ts';

export const newClient = Type.Object(
  {
    name: Type.String({ maxLength: NAME_LENGTH_MAX, description: 'What people call the app.' }),
    company: clearableText({ maxLength: NAME_LENGTH_MAX, description: 'Who makes it.' }),
    description: clearableText({ maxLength: DESCRIPTION_LENGTH_MAX, description: 'What it does for people.' }),
    contact: clearableText({
      maxLength: EMAIL_LENGTH_MAX,
      description: 'The e-mail address of whoever looks after it.',
    }),
    redirect_uris: Type.Optional(
      Type.Array(Type.String(), {
        kind: 'url',
        description: 'Where people are sent back to with a code, each octet for octet as the app will name it.',
      }),
    ),
    owner: Type.Optional(
      Type.Unsafe<number | null>({
        type: ['integer', 'null'],
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'The id of the person whose app it is; without one it is yours.',
      }),
    ),
    is_public: flag({ description: 'It runs where no secret can be kept, as in a browser or on a phone.' }),
    is_verified: flag({
      description: 'You have looked at it, and people are not warned of it. Yes unless you say no.',
    }),
    is_legacy: flag({ description: 'It may leave redirect_uri out at the token endpoint; needs exactly one address.' }),
    rotates_refresh_tokens: flag({
      description: 'It gets another refresh token at each refresh; of a public client this is always so.',
    }),
    client_id: readOnly(),
    client_secret: readOnly(),
    /** The operator's to say, on the machine itself: a token that lasts two hours makes nothing that outlives it so far. */
    is_trusted: readOnly(),
    logo: readOnly(),
    date_created: readOnly(),
    date_modified: readOnly(),
  },
  { additionalProperties: false },
);

export type NewClientBody = Static<typeof newClient>;
