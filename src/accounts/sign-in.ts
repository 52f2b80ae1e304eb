/** Signing in and out: GET and POST /sign-in, POST /sign-out. */
import type { Sql } from '#database/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { DoorHandler } from '#http/route.ts';
import type { Passwords } from './passwords.ts';
import { returnPath } from './return-path.ts';
import type { Sessions } from './sessions.ts';
import { signedInPage, signInPage } from './sign-in-page.ts';
import { checkPassword } from './users.ts';

/** The same words for an unknown address and a wrong password, so that the page tells nobody who has an account. */
const WRONG = 'The e-mail address or the password is wrong.';

export const createSignIn = (deps: {
  sql: Sql;
  passwords: Passwords;
  sessions: Sessions;
  authUrl: string;
}): { show: DoorHandler; submit: DoorHandler; signOut: DoorHandler } => {
  const { sql, passwords, sessions } = deps;
  const root = new URL(deps.authUrl).pathname.replace(/\/+$/, '');

  return {
    show: async (request) => {
      const returnTo = returnPath(request.query.get('return_to'));
      // With somewhere to return to, the form is shown to the signed-in too: that is how they switch to another account.
      const session = returnTo === undefined ? await sessions.find(request) : null;
      if (session !== null) return htmlAnswer(200, signedInPage({ root, email: session.email }));
      return htmlAnswer(200, signInPage({ root, returnTo, email: '', alert: undefined }));
    },

    submit: async (request) => {
      const returnTo = returnPath(request.form.get('return_to'));
      const email = request.form.get('email')?.trim() ?? '';
      const userId = await checkPassword(sql, passwords, { email, password: request.form.get('password') ?? '' });
      if (userId === undefined) return htmlAnswer(422, signInPage({ root, returnTo, email, alert: WRONG }));
      await sessions.end(request);
      const cookie = await sessions.start(userId, request.now);
      return redirectAnswer(returnTo ?? `${root}/sign-in`, { 'Set-Cookie': cookie });
    },

    signOut: async (request) => redirectAnswer(`${root}/sign-in`, { 'Set-Cookie': await sessions.end(request) }),
  };
};
