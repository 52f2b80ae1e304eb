/** What a body may say of a member. */
import { Type } from 'typebox';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { readOnly } from '#http/inputs.ts';
import type { Role } from '../stores-sql.ts';

const ROLES = ['owner', 'member'] as const satisfies readonly Role[];

const role = Type.Unsafe<Role>({
  enum: ROLES,
  description:
    'Owners are shown the keys of its webhooks, and say who belongs to the store; members do everything else.',
});
const user = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    isOfPlatform: true,
    description: 'The id of the person, in place of their e-mail address; for the platform alone.',
  }),
);
const email = Type.Optional(
  Type.String({ maxLength: EMAIL_LENGTH_MAX, description: 'Whom to add: the address that they sign in with.' }),
);

export const newMember = Type.Object({ email, role, user }, { additionalProperties: false });

export const changedMember = Type.Object(
  { role, user_id: readOnly(), email: readOnly(), date_created: readOnly() },
  { additionalProperties: false },
);
