/** Mails the link with which a person proves a mailbox and creates an account, for sign-up and for invitations. */
import { transaction, type Sql } from '#db/pool.ts';
import type { RawRequest } from '#http/route.ts';
import type { Log } from '#core/log.ts';
import type { Mailer } from '#mail/mail.ts';
import { findUserByEmail } from '../accounts-sql.ts';
import { originOf, recordAuditEntry } from '../audit/audit.ts';
import { hashOfLinkToken, newLinkToken } from '../link-token.ts';
import { addressPrefix } from '../throttle/prefix.ts';
import type { Throttle } from '../throttle/throttle.ts';
import { existingAccountMail, signUpMail } from './mails.ts';
import { findSignUp, insertSignUp } from './sign-up-sql.ts';

export type SignUpLinkDeps = {
  sql: Sql;
  throttle: Throttle;
  mailer: Mailer;
  signUpMinutes: number;
  authUrl: string;
  log: Log;
};

/** The addresses in the mails: of the page that creates the account, without its token, and of the page to sign in. */
type Addresses = { confirmAt: string; signInAt: string };

/** Mails the link, or that there is an account. A disabled account gets no mail. */
async function send(deps: SignUpLinkDeps, request: RawRequest, email: string, at: Addresses): Promise<void> {
  const { sql, mailer, authUrl, signUpMinutes: lifetimeMinutes } = deps;
  const { now } = request;
  const user = await findUserByEmail(sql, email);
  if (user?.isDisabled === true) return;
  if (user?.isEmailVerified === true)
    return mailer.send(existingAccountMail({ to: user.email, authUrl, signInAt: at.signInAt }));
  const { token, hash } = newLinkToken('signUp');
  await transaction(sql, async (tx) => {
    await insertSignUp(tx, { hash, email, now, expires: new Date(now.getTime() + lifetimeMinutes * 60_000) });
    await recordAuditEntry(tx, { action: 'sign_up_requested', userId: null, origin: originOf(request), now });
  });
  mailer.send(signUpMail({ to: email, link: `${at.confirmAt}?token=${token}`, lifetimeMinutes, authUrl }));
}

/**
 * Mails the link unless a limit is reached; earlier links stay valid. The result is the same whether or not the address has an account.
 * The limits are not those of mails to a new password, which these mails must not use up. Mails of an invitation are counted for each
 * `inviter`, because they must not use up the links that the person asks for.
 */
export async function mailSignUpLink(
  deps: SignUpLinkDeps,
  request: RawRequest,
  email: string,
  { inviter, ...at }: Addresses & { inviter?: string },
) {
  const subject = inviter === undefined ? email : `${email} invited by ${inviter}`;
  const taken = await deps.throttle.take(
    [
      { limit: 'mail from address', subject: addressPrefix(request.address) },
      { limit: 'sign-up mails to address', subject },
      { limit: 'sign-up mails to address a day', subject },
      ...(inviter === undefined ? [] : [{ limit: 'mails of others to mailbox', subject: email } as const]),
    ],
    request.now,
  );
  // Not awaited: a commit waits for the disk, and its duration would reveal whether the account exists.
  if (taken.allowed)
    send(deps, request, email, at).catch((error: unknown) => deps.log.error({ err: error }, 'sign-up link failed'));
  return taken;
}

/** A valid link and the address that it proves. */
export type SignUpLink = { token: string; hash: Buffer; email: string };

/** Returns the link of a token; undefined if it is unknown, used or expired. */
export async function findSignUpLink(sql: Sql, token: string | null, now: Date): Promise<SignUpLink | undefined> {
  const hash = hashOfLinkToken('signUp', token);
  const email = hash && (await findSignUp(sql, hash, now));
  return hash === undefined || email === undefined ? undefined : { hash, email, token: token ?? '' };
}
