/** Finds the user that the platform adds as a member: by e-mail address or by id. */
import type { Sql, Tx } from '#db/pool.ts';
import type { ApiRequest, CreatedResult } from '#http/operation.ts';
import { readEmail } from '#core/email.ts';
import { invalid, type Problem } from '#core/problem.ts';
import type { Role } from './member.ts';
import { findVerifiedUser } from './members-sql.ts';

/** What is checked before an invitation is made. */
export type PreparedInvitation = { email: string | null; storeName: string };

/** Invites a person in the operation that adds members. */
export type Inviting = {
  prepare: (request: ApiRequest<{ email?: string; role?: Role }>) => Promise<PreparedInvitation>;
  make: (
    tx: Tx,
    request: ApiRequest<{ email?: string; role?: Role }>,
    prepared: PreparedInvitation,
  ) => Promise<CreatedResult & { made: () => Promise<void> }>;
};

type MemberInput = { user?: number; email?: string };

const EMAIL_OR_USER = 'Send either email or user, not both';
const UNKNOWN_USER = 'user must be the id of a user whose e-mail address is verified';

/** Returns the 400 for a user that does not exist. */
export function unknownUser(): Problem {
  return invalid({ code: 'invalid_value', message: UNKNOWN_USER, field: 'user' });
}

/**
 * Returns the id of the user in the body; undefined if no account has verified the e-mail address: its person has to accept an invitation.
 * Throws a 400 that says what to change.
 */
export async function findNewMember(sql: Sql, { user, email }: MemberInput): Promise<number | undefined> {
  if ((user === undefined) === (email === undefined))
    throw invalid({ code: email === undefined ? 'required' : 'invalid_value', message: EMAIL_OR_USER, field: 'email' });
  const userId = await findVerifiedUser(sql, { id: user ?? null, email: readEmail(email ?? '') ?? null });
  if (userId === undefined && user !== undefined) throw unknownUser();
  return userId;
}
