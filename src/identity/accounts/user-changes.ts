/**
 * What the platform changes of a user: PATCH, and POST with a known `external_id`.
 *
 * The platform may be wrong about an address, and its reader must not get the account of another person. So another address of an account
 * that a person uses counts when the person has confirmed it, signed in, as if they had requested the change themselves. It replaces the
 * address at once if no person can sign in yet, if the address was never verified (then neither is the new one), or if the operator trusts
 * the platform (`PLATFORM_EMAILS_VERIFIED`). A password is never changed.
 */
import type { Tx } from '#db/pool.ts';
import { replaceKey } from '#http/external-keys.ts';
import type { ApiRequest } from '#http/operation.ts';
import { readEmail } from '#core/email.ts';
import { platformClient } from '#core/principal.ts';
import { Problem } from '#core/problem.ts';
import type { Mail } from '#mail/mailer.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { emailChangeMail, welcomeMail } from './account-mails.ts';
import { deleteSessionsOf, findUserByEmail, lockUser } from './accounts-sql.ts';
import { originOf, recordAuditEntry, type AuditEntry } from './audit.ts';
import { changeMails, isTaken, requestIn } from './change-email.ts';
import {
  consumePendingChange,
  deletePendingChanges,
  deleteResetsOf,
  listEmailChanges,
  updateEmail,
} from './links-sql.ts';
import type { Links } from './password-change.ts';
import { emailTaken } from './users.ts';
import { findUser, isUnclaimed, touchUser, type UserRow } from './users-sql.ts';

type Deps = Pick<Runtime, 'config' | 'mailer'> & { links: Links };
type By = Pick<AuditEntry, 'origin' | 'client' | 'now'>;
type AddressChange = { user: UserRow; newEmail: string; by: By };

const SOURCE = 'by the service itself';

const NO_MAIL = {
  code: 'email_not_confirmed',
  message: 'The person has to confirm another address, and this service sends no mail by which they could',
  field: 'email',
};

/** Mails both addresses, as at a request of the person. A request for the same address that is still valid is not repeated. */
async function askPerson(tx: Tx, { config, mailer }: Deps, { user, newEmail, by }: AddressChange): Promise<Mail[]> {
  if (mailer === undefined) throw new Problem(409, NO_MAIL);
  const { id: userId, email: oldEmail } = user;
  const validSince = by.now.getTime() - config.accounts.emailConfirmHours * 3_600_000;
  const isAsked = (await listEmailChanges(tx, userId)).some(
    (one) => one.newEmail === newEmail && one.dateChanged === null && one.dateCreated.getTime() > validSince,
  );
  if (isAsked) return [];
  const links = await requestIn(tx, { userId, oldEmail, newEmail, now: by.now }, config.accounts);
  await recordAuditEntry(tx, { ...by, action: 'email_change_requested', userId });
  return changeMails(config, { oldEmail, newEmail, ...links }, SOURCE);
}

/** Replaces the address, and ends the sessions and the mailed links of the former one. */
async function replaceAddress(
  tx: Tx,
  { config: { accounts, authUrl }, mailer, links }: Deps,
  { user, newEmail, by, isUsed }: AddressChange & { isUsed: boolean },
): Promise<Mail[]> {
  const { id: userId, email: oldEmail, isEmailVerified: isVerified } = user;
  const { now } = by;
  await deletePendingChanges(tx, userId);
  await deleteResetsOf(tx, userId);
  await deleteSessionsOf(tx, userId);
  await recordAuditEntry(tx, { ...by, action: 'email_changed', userId });
  // No link goes to an address that no person has used, or that the platform has set: its reader would get the account.
  const undo =
    mailer !== undefined && isUsed && isVerified && !user.isEmailOfPlatform
      ? await requestIn(tx, { userId, oldEmail, newEmail, now }, accounts)
      : undefined;
  if (undo !== undefined) await consumePendingChange(tx, { hash: undo.hash, now, undoExpires: undo.undoExpires });
  try {
    if (!(await updateEmail(tx, { userId, email: newEmail, isVerified, isOfPlatform: isUsed, now })))
      throw emailTaken();
  } catch (error) {
    throw isTaken(error) ? emailTaken() : error;
  }
  if (undo !== undefined) {
    const { emailUndoDays: undoDays } = accounts;
    const facts = { token: undo.undo, source: SOURCE, undoDays, isMade: true };
    return [emailChangeMail({ oldEmail, newEmail, authUrl }, facts)];
  }
  const link = mailer === undefined || isUsed ? undefined : await links.issueIn(tx, userId, by);
  return link === undefined
    ? []
    : [welcomeMail({ to: newEmail, link, lifetimeMinutes: links.lifetimeMinutes, authUrl })];
}

async function changeAddress(tx: Tx, deps: Deps, change: AddressChange): Promise<Mail[]> {
  const { user, newEmail } = change;
  if ((await findUserByEmail(tx, newEmail)) !== undefined) throw emailTaken();
  const isUsed = !(await isUnclaimed(tx, user.id));
  const mustAsk = isUsed && user.isEmailVerified && !deps.config.accounts.platformEmailsVerified;
  return mustAsk ? askPerson(tx, deps, change) : replaceAddress(tx, deps, { ...change, isUsed });
}

/** `mails` are sent after the commit. */
export type ChangedUser = { row: UserRow; mails: readonly Mail[] };

/**
 * Changes what the platform sends of a user. `unmodified` is called with the revision of the locked user. Returns undefined if the user does
 * not exist. Throws a 409 if another user has the address or the key.
 */
export async function changeUserIn(
  tx: Tx,
  deps: Deps,
  { userId, email, externalId }: { userId: number; email?: string | undefined; externalId?: string | null | undefined },
  request: Pick<ApiRequest, 'principal' | 'address' | 'headers' | 'now'>,
  unmodified?: ApiRequest['unmodified'],
): Promise<ChangedUser | undefined> {
  const { principal, now } = request;
  const reader = platformClient(principal);
  if ((await lockUser(tx, userId)) === undefined) return undefined;
  const stored = await findUser(tx, userId, reader);
  if (stored === undefined) return undefined;
  unmodified?.(stored.revision);
  const newEmail = (email === undefined ? undefined : readEmail(email)) ?? stored.email;
  const by = { origin: originOf(request), client: principal.clientId, now };
  const mails = newEmail === stored.email ? [] : await changeAddress(tx, deps, { user: stored, newEmail, by });
  if (reader !== null && externalId !== undefined && externalId !== stored.externalId) {
    await replaceKey(tx, { client: reader, resource: 'user', id: userId, key: externalId });
    await touchUser(tx, userId);
  }
  return { row: (await findUser(tx, userId, reader)) ?? stored, mails };
}
