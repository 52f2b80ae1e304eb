/** The schema of a request body that creates an invitation. */
import { Type } from 'typebox';
import { EMAIL_LENGTH_MAX } from '#core/email.ts';
import { readOnly } from '#http/inputs.ts';
import { role } from '../members/schema.ts';
import type { Role } from '../stores-sql.ts';

/** The role of an invitation that names none: the one with fewer rights. */
export const DEFAULT_ROLE = 'member' satisfies Role;

export const newInvitation = Type.Object(
  {
    email: Type.Optional(
      Type.String({
        maxLength: EMAIL_LENGTH_MAX,
        description:
          'Only an account with this e-mail address can accept. If omitted, the first person with the link can.',
      }),
    ),
    role: Type.Optional(Type.Unsafe<Role>({ ...role, default: DEFAULT_ROLE })),
    id: readOnly(),
    state: readOnly(),
    link: readOnly(),
    is_mailed: readOnly(),
    created_by: readOnly(),
    date_created: readOnly(),
    date_expires: readOnly(),
  },
  { additionalProperties: false },
);
