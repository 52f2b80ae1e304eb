/** Schemas of a member in request bodies. */
import { Type } from 'typebox';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { readOnly } from '#http/inputs.ts';
import type { Role } from '../stores-sql.ts';

const ROLES = ['owner', 'member'] as const satisfies readonly Role[];

export const role = Type.Unsafe<Role>({
  enum: ROLES,
  description: 'Owners see the keys of webhooks and manage members; members can do everything else.',
});
const user = Type.Optional(
  Type.Integer({
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'The id of the user, instead of the e-mail address.',
  }),
);
const email = Type.Optional(
  Type.String({
    maxLength: EMAIL_LENGTH_MAX,
    description:
      'The e-mail address that the new member signs in with. Without an account that has verified it, the person is invited.',
  }),
);

export const newMember = Type.Object({ email, role, user }, { additionalProperties: false });

export const changedMember = Type.Object(
  { role, user_id: readOnly(), email: readOnly(), is_email_verified: readOnly(), date_created: readOnly() },
  { additionalProperties: false },
);
