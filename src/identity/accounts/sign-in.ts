/** Sign-in and sign-out: GET and POST /sign-in, its second step, sign-in with a passkey, POST /sign-out. */
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import { VERIFICATION_FIELDS } from '#http/pages/form-post.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import type { Markup } from '#hypermedia/markup.ts';
import type { Attempts } from './attempts.ts';
import { originOf, recordAuditEntry } from './audit/audit.ts';
import type { Devices } from './device.ts';
import { findCredentials, lockPassword, type Credentials } from './accounts-sql.ts';
import { findFactors, type Factors } from './factors/factors-sql.ts';
import type { Passkeys } from './factors/passkeys.ts';
import type { PendingSignIns } from './factors/pending-sign-in.ts';
import { hasSecondFactor, type SecondFactor } from './factors/second-factor.ts';
import type { SecurityMails } from './security-mails.ts';
import { returnPath } from './return-path.ts';
import type { Sessions } from './sessions.ts';
import { secondFactorPage, signInPage } from './sign-in-page.ts';
import { addressPrefix } from './throttle/prefix.ts';
import type { Throttle } from './throttle/throttle.ts';
import { tooManyAnswer } from './too-many.ts';

/** One message for an unknown address and a wrong password, so that the page does not reveal whether an account exists. */
const WRONG = 'The e-mail address or the password is wrong.';
const WRONG_CODE = 'The code or passkey is not valid. Each code works once.';
const WRONG_PASSKEY = 'The passkey is not known here, or the page was open for too long. Try again.';
const TOO_LATE = 'The sign-in took too long, or the password was changed. Start again.';

type Deps = {
  sql: Sql;
  attempts: Attempts;
  throttle: Throttle;
  sessions: Sessions;
  devices: Devices;
  secondFactor: SecondFactor;
  passkeys: Passkeys;
  pendingSignIns: PendingSignIns;
  /** Undefined if mail is not configured. */
  securityMails: SecurityMails | undefined;
  formTargets: (returnTo: string) => Promise<readonly string[]>;
  root: string;
  /** The script elements of pages with passkeys. */
  passkeyScripts: Markup;
  /** Whether people may create accounts themselves. */
  allowsSignUp: boolean;
  /** Advice on the page for too many attempts. */
  advice: Markup;
};

/** Starts the session and returns its cookies; undefined if the password has changed since it was verified. */
const begin = (deps: Deps, request: RawRequest, user: Credentials): Promise<string[] | undefined> =>
  transaction(deps.sql, async (tx) => {
    if (!(await lockPassword(tx, user))) return undefined;
    await deps.sessions.end(tx, request);
    const session = await deps.sessions.start(tx, user.id, request);
    await recordAuditEntry(tx, { action: 'signed_in', userId: user.id, origin: originOf(request), now: request.now });
    return [session, ...deps.devices.remember(request, user)];
  });

export type SignInPages = {
  /** The form of the first step. */
  signIn: (request: RawRequest, status: number, typed: { email: string; alert?: string }) => Promise<RawResponse>;
  secondStep: (request: RawRequest, user: Credentials, factors: Factors, alert?: string) => Promise<RawResponse>;
};

const returnTargetOf = ({ method, query, form }: RawRequest): string | undefined =>
  returnPath((method === 'POST' ? form : query).get('return_to'));

export function createSignInPages(
  deps: Pick<Deps, 'root' | 'passkeys' | 'passkeyScripts' | 'pendingSignIns' | 'formTargets' | 'allowsSignUp'>,
): SignInPages {
  const { root, passkeys, passkeyScripts, allowsSignUp } = deps;
  const optionsOf = async (returnTo: string | undefined) => {
    return { formTargets: returnTo === undefined ? [] : await deps.formTargets(returnTo), hasScripts: true };
  };
  return {
    signIn: async (request, status, typed) => {
      const returnTo = returnTargetOf(request);
      const passkeyOptions = await passkeys.signInOptions(request.now);
      const view = { root, returnTo, alert: undefined, passkeyOptions, passkeyScripts, allowsSignUp, ...typed };
      return htmlAnswer(status, signInPage(view), await optionsOf(returnTo));
    },
    secondStep: async (request, user, { passkeys: own, hasApp }, alert) => {
      const returnTo = returnTargetOf(request);
      const passkeyOptions = own.length > 0 ? await passkeys.signInOptions(request.now, own) : undefined;
      const pending = deps.pendingSignIns.issue(user, request.now);
      const view = { root, returnTo, email: user.email, pending, hasApp, passkeyOptions, passkeyScripts, alert };
      return htmlAnswer(alert === undefined ? 200 : 422, secondFactorPage(view), await optionsOf(returnTo));
    },
  };
}

/** Starts the session, and mails the person if the browser is new to the account. */
async function beginHere(deps: Deps, request: RawRequest, user: Credentials): Promise<string[] | undefined> {
  const { securityMails } = deps;
  const isNew = (await securityMails?.isNewDevice(request, user)) === true;
  const cookies = await begin(deps, request, user);
  if (isNew && cookies !== undefined) securityMails?.newDevice(request, user);
  return cookies;
}

/** `root` is the path prefix of the pages, without a trailing slash. */
export function createSignIn(
  deps: Deps,
): Record<'show' | 'submit' | 'submitSecond' | 'submitPasskey' | 'signOut', RawHandler> {
  const { sql, attempts, sessions, secondFactor, passkeys, pendingSignIns, throttle, root, advice } = deps;
  const pages = createSignInPages(deps);
  const finish = async (request: RawRequest, user: Credentials, alert: string): Promise<RawResponse> => {
    const cookies = await beginHere(deps, request, user);
    if (cookies === undefined) return pages.signIn(request, 422, { email: user.email, alert });
    return redirectAnswer(returnTargetOf(request) ?? `${root}/home`, { 'Set-Cookie': cookies });
  };

  return {
    show: async (request) => {
      // With `return_to`, a signed-in user also gets the form, to switch to another account.
      const session = returnTargetOf(request) === undefined ? await sessions.find(request) : null;
      if (session !== null) return redirectAnswer(`${root}/home`);
      return pages.signIn(request, 200, { email: '' });
    },

    submit: async (request) => {
      const email = request.form.get('email')?.trim() ?? '';
      const attempt = await attempts(request, { email, password: request.form.get('password') ?? '' });
      if (attempt.kind === 'too many') return tooManyAnswer(root, attempt, advice);
      if (attempt.kind === 'wrong') return pages.signIn(request, 422, { email, alert: WRONG });
      const factors = await findFactors(sql, attempt.user.id);
      if (hasSecondFactor(factors)) return pages.secondStep(request, attempt.user, factors);
      return finish(request, attempt.user, WRONG);
    },

    submitSecond: async (request) => {
      const token = request.form.get('pending') ?? '';
      const id = pendingSignIns.userIdOf(token, request.now);
      const user = id === undefined ? undefined : await findCredentials(sql, id);
      if (user === undefined || !pendingSignIns.isOf(token, user))
        return pages.signIn(request, 422, { email: '', alert: TOO_LATE });
      const verified = await secondFactor.verify(request, user);
      if (verified.kind === 'too many') return tooManyAnswer(root, verified, advice);
      if (verified.kind === 'wrong')
        return pages.secondStep(request, user, await findFactors(sql, user.id), WRONG_CODE);
      return finish(request, user, TOO_LATE);
    },

    submitPasskey: async (request) => {
      const { form, now, address } = request;
      const taken = await throttle.take([{ limit: 'sign-in from address', subject: addressPrefix(address) }], now);
      if (!taken.allowed) return tooManyAnswer(root, taken, advice);
      const id = await passkeys.accept(sql, form.get(VERIFICATION_FIELDS.passkey) ?? '', now);
      const user = id === undefined ? undefined : await findCredentials(sql, id);
      if (user === undefined) return pages.signIn(request, 422, { email: '', alert: WRONG_PASSKEY });
      await taken.giveBack();
      return finish(request, user, WRONG_PASSKEY);
    },

    signOut: async (request) => {
      const { now } = request;
      const cookie = await transaction(sql, async (tx) => {
        const ended = await sessions.end(tx, request);
        if (ended.userId !== null)
          await recordAuditEntry(tx, { action: 'signed_out', userId: ended.userId, origin: originOf(request), now });
        return ended.cookie;
      });
      return redirectAnswer(`${root}/sign-in`, { 'Set-Cookie': cookie });
    },
  };
}
