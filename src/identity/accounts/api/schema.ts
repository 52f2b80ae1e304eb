/** What a body may say of a user. */
import { Type } from 'typebox';
import { readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { PASSWORD_LENGTH_MAX } from '../passwords.ts';
import { PASSWORD_LENGTH_MIN } from '../users.ts';

export const newUser = Type.Object(
  {
    email: Type.String({ maxLength: EMAIL_LENGTH_MAX, description: 'The address that they sign in with.' }),
    password: Type.Optional(
      Type.String({
        minLength: PASSWORD_LENGTH_MIN,
        maxLength: PASSWORD_LENGTH_MAX,
        kind: 'secret',
        description: 'Left out, they are mailed a link by which they choose one, where mail is set up.',
      }),
    ),
    id: readOnly(),
    date_created: readOnly(),
  },
  { additionalProperties: false },
);
