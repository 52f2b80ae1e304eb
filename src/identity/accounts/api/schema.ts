/** The schema of a request body that creates a user. */
import { Type } from 'typebox';
import { readOnly } from '#http/inputs.ts';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { PASSWORD_LENGTH_MAX } from '../passwords.ts';
import { passwordLengthMin } from '../users.ts';

export const newUser = Type.Object(
  {
    email: Type.String({ maxLength: EMAIL_LENGTH_MAX, description: 'The address the user signs in with.' }),
    password: Type.Optional(
      Type.String({
        minLength: passwordLengthMin({ hasSecondFactor: false }),
        maxLength: PASSWORD_LENGTH_MAX,
        kind: 'secret',
        description: 'If omitted and mail is configured, the user is mailed a link for choosing one.',
      }),
    ),
    id: readOnly(),
    is_email_verified: readOnly(),
    date_created: readOnly(),
  },
  { additionalProperties: false },
);
