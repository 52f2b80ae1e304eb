/** Resets a password with a mailed link: GET and POST /reset-password. */
import { inPerson } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import { originOf } from '../audit/audit.ts';
import type { Devices } from '../device.ts';
import type { Passwords } from '../passwords.ts';
import { lockUser } from '../accounts-sql.ts';
import { lockForErasure } from '../api/users-sql.ts';
import type { SecurityMails } from '../security-mails.ts';
import type { Sessions } from '../sessions.ts';
import type { SignInPages } from '../sign-in.ts';
import { findFactors, type Factors } from '../factors/factors-sql.ts';
import { hasSecondFactor } from '../factors/second-factor.ts';
import type { EraseUnverified } from '../unverified.ts';
import { addUser, passwordFault } from '../users.ts';
import { hashOfLink } from './links.ts';
import { invalidLinkPage, resetPage } from './pages.ts';
import { consumeReset, findReset } from './password-sql.ts';
import { replacePassword, type EndGrants } from './replace.ts';

type Deps = {
  sql: Sql;
  pages: Pick<SignInPages, 'secondStep'>;
  passwords: Passwords;
  sessions: Sessions;
  devices: Devices;
  endGrants: EndGrants;
  eraseUnverified: EraseUnverified;
  /** Undefined if mail is not configured. */
  securityMails: SecurityMails | undefined;
  root: string;
};

type Choice = { userId: number; isEmailVerified: boolean; hash: Buffer; passwordHash: string };

/** The cookie of the new session, or the second factors that the person has to use first. */
type Redeemed = { userId: number } & ({ session: string } | { factors: Factors });

/**
 * Consumes the link and replaces the password; undefined if the link has been used in the meantime. The link proves that a person
 * reads the mail of the account, not that they have its second factor; if the address was not verified before, they get a new account.
 */
const redeem = (deps: Deps, request: RawRequest, choice: Choice): Promise<Redeemed | undefined> =>
  transaction(deps.sql, async (tx) => {
    const { userId, hash, passwordHash } = choice;
    const { now } = request;
    // Before the weaker lock: two transactions that both hold it could not erase the user.
    if (!choice.isEmailVerified) await lockForErasure(tx, userId);
    const user = await lockUser(tx, userId);
    if (user === undefined || user.isDisabled || !(await consumeReset(tx, hash, now))) return undefined;
    if (!user.isEmailVerified) {
      const { email } = user;
      await deps.sessions.end(tx, request);
      await deps.eraseUnverified(tx, email, request);
      const { id } = await addUser(tx, { email, passwordHash }, { origin: originOf(request), now });
      return { userId: id, session: await deps.sessions.start(tx, id, request) };
    }
    const endGrants = request.form.get('end_grants') === '1' ? deps.endGrants : undefined;
    await replacePassword(tx, {
      action: 'password_reset',
      userId,
      passwordHash,
      endGrants,
      actor: inPerson(userId),
      origin: originOf(request),
      now,
    });
    // Another user may be signed in in this browser.
    await deps.sessions.end(tx, request);
    const factors = await findFactors(tx, userId);
    if (hasSecondFactor(factors)) return { userId, factors };
    return { userId, session: await deps.sessions.start(tx, userId, request) };
  });

export function createReset(deps: Deps): Record<'show' | 'submit', RawHandler> {
  const { sql, passwords, root } = deps;
  const invalidLink = () => htmlAnswer(410, invalidLinkPage(root));
  const find = async (token: string | null, now: Date) => {
    const hash = hashOfLink(token);
    const found = hash === undefined ? undefined : await findReset(sql, hash, now);
    if (hash === undefined || found === undefined) return undefined;
    const keepsFactor = found.isEmailVerified && hasSecondFactor(await findFactors(sql, found.userId));
    return { ...found, hash, token: token ?? '', hasSecondFactor: keepsFactor };
  };

  return {
    // Does not consume the link, because mail scanners open links in advance.
    show: async ({ query, now }) => {
      const link = await find(query.get('token'), now);
      return link === undefined ? invalidLink() : htmlAnswer(200, resetPage({ ...link, root, fault: undefined }));
    },

    submit: async (request) => {
      const link = await find(request.form.get('token'), request.now);
      if (link === undefined) return invalidLink();
      const password = request.form.get('password') ?? '';
      const fault = await passwordFault({ ...link, password });
      if (fault !== undefined) {
        const message = `The new ${fault.message}.`;
        return htmlAnswer(422, resetPage({ ...link, root, fault: { field: 'password', message } }));
      }
      const { email } = link;
      const passwordHash = await passwords.hash(password);
      const redeemed = await redeem(deps, request, { ...link, passwordHash });
      if (redeemed === undefined) return invalidLink();
      const user = { id: redeemed.userId, email };
      deps.securityMails?.passwordChanged(request, user);
      if ('factors' in redeemed)
        return deps.pages.secondStep(
          request,
          { ...user, passwordHash, isDisabled: false, isEmailVerified: true },
          redeemed.factors,
        );
      const cookies = [redeemed.session, ...deps.devices.remember(request, { email, passwordHash })];
      return redirectAnswer(`${root}/account?done=password`, { 'Set-Cookie': cookies });
    },
  };
}
