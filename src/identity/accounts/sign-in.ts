/** Sign-in and sign-out: GET and POST /sign-in, POST /sign-out. */
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest } from '#http/route.ts';
import type { Markup } from '#hypermedia/markup.ts';
import type { Attempts } from './attempts.ts';
import { originOf, recordAuditEntry } from './audit/audit.ts';
import type { Devices } from './device.ts';
import { lockPassword, type Credentials } from './accounts-sql.ts';
import type { SecurityMails } from './security-mails.ts';
import { returnPath } from './return-path.ts';
import type { Sessions } from './sessions.ts';
import { signInPage } from './sign-in-page.ts';
import { tooManyAnswer } from './too-many.ts';

/** One message for an unknown address and a wrong password, so that the page does not reveal whether an account exists. */
const WRONG = 'The e-mail address or the password is wrong.';

type Deps = {
  sql: Sql;
  attempts: Attempts;
  sessions: Sessions;
  devices: Devices;
  /** Undefined if mail is not configured. */
  securityMails: SecurityMails | undefined;
  formTargets: (returnTo: string) => Promise<readonly string[]>;
  root: string;
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

/** Starts the session, and mails the person if the browser is new to the account. */
async function beginHere(deps: Deps, request: RawRequest, user: Credentials): Promise<string[] | undefined> {
  const { securityMails } = deps;
  const isNew = (await securityMails?.isNewDevice(request, user)) === true;
  const cookies = await begin(deps, request, user);
  if (isNew && cookies !== undefined) securityMails?.newDevice(request, user);
  return cookies;
}

/** `root` is the path prefix of the pages, without a trailing slash. */
export function createSignIn(deps: Deps): Record<'show' | 'submit' | 'signOut', RawHandler> {
  const { sql, attempts, sessions, root, advice } = deps;
  const page = async (status: number, returnTo: string | undefined, typed: { email: string; alert?: string }) => {
    const formTargets = returnTo === undefined ? [] : await deps.formTargets(returnTo);
    return htmlAnswer(
      status,
      signInPage({ root, returnTo, alert: undefined, allowsSignUp: deps.allowsSignUp, ...typed }),
      {
        formTargets,
      },
    );
  };

  return {
    show: async (request) => {
      const returnTo = returnPath(request.query.get('return_to'));
      // With `return_to`, a signed-in user also gets the form, to switch to another account.
      const session = returnTo === undefined ? await sessions.find(request) : null;
      if (session !== null) return redirectAnswer(`${root}/home`);
      return page(200, returnTo, { email: '' });
    },

    submit: async (request) => {
      const returnTo = returnPath(request.form.get('return_to'));
      const email = request.form.get('email')?.trim() ?? '';
      const attempt = await attempts(request, { email, password: request.form.get('password') ?? '' });
      if (attempt.kind === 'too many') return tooManyAnswer(root, attempt, advice);
      const cookies = attempt.kind === 'right' ? await beginHere(deps, request, attempt.user) : undefined;
      if (cookies === undefined) return page(422, returnTo, { email, alert: WRONG });
      return redirectAnswer(returnTo ?? `${root}/home`, { 'Set-Cookie': cookies });
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
