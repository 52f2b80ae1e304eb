/** What a body may say of a member. */
import { Type } from 'typebox';
import { readOnly } from '#http/inputs.ts';
import type { Role } from '../queries.ts';

const ROLES = ['owner', 'member'] as const satisfies readonly Role[];

const role = Type.Unsafe<Role>({
  enum: ROLES,
  description: 'What they are to the store; only owners are shown the keys of its webhooks.',
});
const user = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'The id of the person.' });

export const newMember = Type.Object({ user, role }, { additionalProperties: false });

export const changedMember = Type.Object(
  { role, user_id: readOnly(), date_created: readOnly() },
  { additionalProperties: false },
);
