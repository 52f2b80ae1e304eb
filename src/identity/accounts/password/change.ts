/** Changes the password of a signed-in user: GET and POST /account/password. */
import { inPerson } from '#changelog/changelog.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Markup } from '#hypermedia/markup.ts';
import type { Attempts } from '../attempts.ts';
import { originOf } from '../audit/audit.ts';
import type { Devices } from '../device.ts';
import { findFactors } from '../factors/factors-sql.ts';
import { hasSecondFactor } from '../factors/second-factor.ts';
import type { Passwords } from '../passwords.ts';
import { lockUser, type Credentials } from '../accounts-sql.ts';
import type { Session, Sessions } from '../sessions.ts';
import type { SecurityMails } from '../security-mails.ts';
import type { SignedIn } from '../signed-in.ts';
import { tooManyAnswer } from '../too-many.ts';
import { passwordFault } from '../users.ts';
import { changePage, WRONG_PASSWORD, type FormFault } from './pages.ts';
import { replacePassword, type EndGrants } from './replace.ts';

type Deps = {
  sql: Sql;
  attempts: Attempts;
  passwords: Passwords;
  sessions: Sessions;
  devices: Devices;
  signedIn: SignedIn;
  endGrants: EndGrants;
  /** Undefined if mail is not configured. */
  securityMails: SecurityMails | undefined;
  root: string;
  /** Advice on the page for too many attempts. */
  advice: Markup;
};

const FORM = ['password'] as const;

/**
 * Replaces the password and returns the cookie of the new session; undefined if the password has changed since it was
 * verified.
 */
const replace = (
  deps: Deps,
  request: RawRequest,
  user: Credentials,
  passwordHash: string,
): Promise<string | undefined> =>
  transaction(deps.sql, async (tx) => {
    const { now } = request;
    const locked = await lockUser(tx, user.id);
    if (locked === undefined || locked.isDisabled || locked.passwordHash !== user.passwordHash) return undefined;
    const endGrants = request.form.get('end_grants') === '1' ? deps.endGrants : undefined;
    const by = { actor: inPerson(user.id), origin: originOf(request), now };
    await replacePassword(tx, { action: 'password_changed', userId: user.id, passwordHash, endGrants, ...by });
    return deps.sessions.start(tx, user.id, request);
  });

export function createChange(deps: Deps): Record<'show' | 'submit', RawHandler> {
  const { signedIn, attempts, passwords, root, advice } = deps;
  const hasFactor = async ({ userId }: Session) => hasSecondFactor(await findFactors(deps.sql, userId));
  const showForm = async (session: Session, status: number, fault?: FormFault) => {
    const view = {
      email: session.email,
      nonce: signedIn.nonce(session, FORM),
      hasSecondFactor: await hasFactor(session),
    };
    return htmlAnswer(status, changePage({ root, fault, ...view }));
  };

  return {
    show: signedIn.page(async (_request, session) => showForm(session, 200)),

    submit: signedIn.passwordForm(
      () => FORM,
      async (request, session) => {
        const { email } = session;
        const password = request.form.get('password') ?? '';
        const fault = await passwordFault({ email, password, hasSecondFactor: await hasFactor(session) });
        if (fault !== undefined)
          return showForm(session, 422, { field: 'password', message: `The new ${fault.message}.` });
        const attempt = await attempts(request, { email, password: request.form.get('current') ?? '' });
        if (attempt.kind === 'too many') return tooManyAnswer(root, attempt, advice);
        if (attempt.kind === 'wrong') return showForm(session, 422, WRONG_PASSWORD);
        const passwordHash = await passwords.hash(password);
        const cookie = await replace(deps, request, attempt.user, passwordHash);
        if (cookie === undefined) return showForm(session, 422, WRONG_PASSWORD);
        deps.securityMails?.passwordChanged(request, attempt.user);
        const cookies = [cookie, ...deps.devices.remember(request, { email, passwordHash })];
        return redirectAnswer(`${root}/account?done=password`, { 'Set-Cookie': cookies });
      },
    ),
  };
}
