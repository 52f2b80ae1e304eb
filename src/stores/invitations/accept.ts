/** Accepts an invitation: the user becomes a member with the role of the invitation, which ends. */
import { inPerson } from '#changelog/changelog.ts';
import type { Tx } from '#db/pool.ts';
import { recordInvitation, recordMember, type MemberEffects } from '../audited-changes.ts';
import { countMembers, insertMember, lockStoreRow, lockUserRow } from '../members/members-sql.ts';
import { deleteInvitation, type OfferedInvitation } from './invitations-sql.ts';

/** Why an invitation is not accepted; the transaction must be rolled back. */
export type Refusal = 'ended' | 'other address' | 'already member' | 'store full';

export class NotAccepted extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(`The invitation was not accepted: ${refusal}`);
    this.name = 'NotAccepted';
    this.refusal = refusal;
  }
}

/** Returns whether a user with this e-mail address may accept. */
export function isFor({ email }: Pick<OfferedInvitation, 'email'>, address: string): boolean {
  return email === null || email === address;
}

/**
 * Makes a user a member, in the transaction of the caller. `userOf` returns the user, and may create it. Throws `NotAccepted`.
 * Concurrent calls for one store wait for its lock, so an invitation is used once, and the limit of members is exact.
 */
export async function acceptInvitation(
  tx: Tx,
  invitation: OfferedInvitation,
  { changelog, memberAccess }: MemberEffects,
  by: { userOf: (tx: Tx) => Promise<{ id: number; email: string }>; membersPerStore: number; now: Date },
): Promise<{ userId: number }> {
  const { shard, storeId } = invitation;
  const { now } = by;
  if (!(await lockStoreRow(tx, { shard, storeId }))) throw new NotAccepted('ended');
  const user = await by.userOf(tx);
  if (!(await lockUserRow(tx, user.id))) throw new NotAccepted('ended');
  if (!isFor(invitation, user.email)) throw new NotAccepted('other address');
  const accepted = await deleteInvitation(tx, invitation, now);
  if (accepted === undefined) throw new NotAccepted('ended');
  const { role } = accepted;
  const member = { shard, storeId, userId: user.id };
  if (!(await insertMember(tx, { ...member, role, now }))) throw new NotAccepted('already member');
  if ((await countMembers(tx, member)) > by.membersPerStore) throw new NotAccepted('store full');
  const actor = { changelog, actor: inPerson(user.id), now };
  await recordInvitation(tx, invitation, { action: 'accepted', role }, actor);
  await recordMember(tx, member, { before: null, after: role }, actor);
  await memberAccess.begin(tx, member, now);
  return { userId: user.id };
}
