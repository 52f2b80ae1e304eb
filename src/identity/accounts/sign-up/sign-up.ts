/** Self sign-up, if the operator allows it: /sign-up mails a link, /sign-up/confirm creates the account. */
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { html } from '#hypermedia/markup.ts';
import { readEmail } from '#core/email.ts';
import type { Log } from '#core/log.ts';
import { notFound, Problem } from '#core/problem.ts';
import type { Mailer } from '#mail/mail.ts';
import { originOf } from '../audit/audit.ts';
import type { Devices } from '../device.ts';
import type { FormFault } from '../password/pages.ts';
import type { Passwords } from '../passwords.ts';
import type { Sessions } from '../sessions.ts';
import type { Throttle } from '../throttle/throttle.ts';
import { tooManyAnswer } from '../too-many.ts';
import type { EraseUnverified } from '../unverified.ts';
import { addUser, passwordFault, prepareUser } from '../users.ts';
import { findSignUpLink, mailSignUpLink, type SignUpLink } from './link.ts';
import { existingAccountPage, invalidSignUpPage, newAccountPage, signUpPage, signUpSentPage } from './pages.ts';
import { consumeSignUp, deleteSignUps } from './sign-up-sql.ts';

export type SignUpDeps = {
  sql: Sql;
  passwords: Passwords;
  sessions: Sessions;
  devices: Devices;
  throttle: Throttle;
  eraseUnverified: EraseUnverified;
  mailer: Mailer | undefined;
  /** Whether people may create accounts themselves. It needs mail. */
  allowsSignUp: boolean;
  signUpMinutes: number;
  authUrl: string;
  root: string;
  log: Log;
};

const INVALID: FormFault = { field: 'email', message: 'Enter an address such as ada@example.com.' };

async function requestLink(deps: SignUpDeps & { mailer: Mailer }, request: RawRequest): Promise<RawResponse> {
  const { root, authUrl, signUpMinutes: lifetimeMinutes } = deps;
  const typed = request.form.get('email') ?? '';
  const email = readEmail(typed);
  if (email === undefined) return htmlAnswer(422, signUpPage({ root, email: typed, fault: INVALID }));
  const at = { confirmAt: `${authUrl}/sign-up/confirm`, signInAt: `${authUrl}/sign-in` };
  const taken = await mailSignUpLink(deps, request, email, at);
  if (!taken.allowed) return tooManyAnswer(root, taken, html`<p>Check your inbox and your spam folder.</p>`);
  return htmlAnswer(200, signUpSentPage({ root, email, lifetimeMinutes, again: `${root}/sign-up` }));
}

/** Creates the account and returns the cookie of its session; undefined if the link has been used in the meantime. */
const join = (deps: SignUpDeps, request: RawRequest, { hash, email }: SignUpLink, passwordHash: string) =>
  transaction(deps.sql, async (tx) => {
    const { now } = request;
    if (!(await consumeSignUp(tx, hash, now))) return undefined;
    await deleteSignUps(tx, email);
    await deps.eraseUnverified(tx, email, request);
    const { id } = await addUser(tx, { email, passwordHash }, { origin: originOf(request), now });
    // Another user may be signed in in this browser.
    await deps.sessions.end(tx, request);
    return deps.sessions.start(tx, id, request);
  });

async function createAccount(deps: SignUpDeps, request: RawRequest, link: SignUpLink): Promise<RawResponse> {
  const { root, passwords } = deps;
  const { email } = link;
  const password = request.form.get('password') ?? '';
  const weak = await passwordFault({ email, password, hasSecondFactor: false });
  if (weak !== undefined) {
    const fault: FormFault = { field: 'password', message: `The ${weak.message}.` };
    return htmlAnswer(422, newAccountPage({ ...link, root, fault }));
  }
  const { passwordHash } = await prepareUser(passwords, { email, password });
  try {
    const session = await join(deps, request, link, passwordHash);
    if (session === undefined) return htmlAnswer(410, invalidSignUpPage(`${root}/sign-up`));
    const cookies = [session, ...deps.devices.remember(request, { email, passwordHash })];
    return redirectAnswer(`${root}/home`, { 'Set-Cookie': cookies });
  } catch (error) {
    // The operator or an invitation created the account since the link was mailed.
    if (error instanceof Problem && error.status === 409) return htmlAnswer(409, existingAccountPage(root));
    throw error;
  }
}

export type SignUp = Record<'request' | 'confirm', Record<'show' | 'submit', RawHandler>>;

export function createSignUp(deps: SignUpDeps): SignUp {
  const { sql, mailer, root } = deps;
  /** Throws a 404 unless people may sign up. */
  const admitted = (): SignUpDeps & { mailer: Mailer } => {
    if (!deps.allowsSignUp || mailer === undefined) throw notFound('page');
    return { ...deps, mailer };
  };
  const find = (token: string | null, now: Date) => findSignUpLink(sql, token, now);
  const invalid = () => htmlAnswer(410, invalidSignUpPage(`${root}/sign-up`));
  return {
    request: {
      show: async () => {
        admitted();
        return htmlAnswer(200, signUpPage({ root, email: '', fault: undefined }));
      },
      submit: async (request) => requestLink(admitted(), request),
    },
    // Does not consume the link, because mail scanners open links in advance.
    confirm: {
      show: async ({ query, now }) => {
        admitted();
        const link = await find(query.get('token'), now);
        return link === undefined ? invalid() : htmlAnswer(200, newAccountPage({ ...link, root, fault: undefined }));
      },
      submit: async (request) => {
        admitted();
        const link = await find(request.form.get('token'), request.now);
        return link === undefined ? invalid() : createAccount(deps, request, link);
      },
    },
  };
}
