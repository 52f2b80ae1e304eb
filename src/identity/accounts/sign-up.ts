/**
 * Self sign-up, if the operator allows it: /sign-up mails a link, /sign-up/confirm creates the account. Invitations mail the
 * same link.
 */
import { transaction, type Sql } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html } from '#hypermedia/markup.ts';
import { notFound, Problem } from '#core/problem.ts';
import type { Mailer } from '#mail/mailer.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { findUserByEmail } from './accounts-sql.ts';
import { originOf, recordAuditEntry } from './audit.ts';
import { consumeSignUp, deleteSignUps, findSignUp, insertSignUp } from './links-sql.ts';
import {
  askForLink,
  findLink,
  followLink,
  invalidLink,
  newLinkToken,
  type Found,
  type LinkMail,
} from './mailed-links.ts';
import { existingAccountMail, signUpMail } from './account-mails.ts';
import {
  alertOf,
  cardPage,
  emailField,
  INVALID_EMAIL,
  newPasswordField,
  noticeAnswer,
  passwordFieldFault,
  postForm,
  usernameField,
  type FormFault,
} from './page-kit.ts';
import type { People } from './people.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import type { UserErasure } from './user-end.ts';
import { addUser, prepareUser } from './users.ts';

/** What mails the link. */
type SignUpSender = Pick<Runtime, 'sql' | 'config'> & { mailer: Mailer };

/** The addresses in the mails: of the page that creates the account, without its token, and of the page to sign in. */
type Addresses = { confirmAt: string; signInAt: string };

/** Mails the link, or that there is an account. A disabled account gets no mail. */
async function send(sender: SignUpSender, request: RawRequest, email: string, at: Addresses): Promise<void> {
  const { sql, mailer, config } = sender;
  const { authUrl, accounts } = config;
  const { signUpMinutes: lifetimeMinutes } = accounts;
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
 * Returns the mail with the link of a new account. The limits are not those of mails to a new password, which these mails must not use up.
 * Mails of an invitation are counted for each `inviter`, because they must not use up the links that the person asks for.
 */
export function signUpMailTo(
  sender: SignUpSender,
  request: RawRequest,
  email: string,
  { inviter, ...at }: Addresses & { inviter?: string },
): LinkMail {
  const subject = inviter === undefined ? email : `${email} invited by ${inviter}`;
  return {
    buckets: [
      { limit: 'mail from address', subject: addressPrefix(request.address) },
      { limit: 'sign-up mails to address', subject },
      { limit: 'sign-up mails to address a day', subject },
      ...(inviter === undefined ? [] : [{ limit: 'mails of others to mailbox', subject: email } as const]),
    ],
    send: () => send(sender, request, email, at),
  };
}

export const SIGN_UP_FAILURE = 'sign-up link failed';

/** A valid link and the address that it proves. */
export type SignUpLink = Found<{ email: string }>;

/** Returns the link of a token; undefined if it is unknown, used or expired. */
export function findSignUpLink(sql: Sql, token: string | null, now: Date): Promise<SignUpLink | undefined> {
  return findLink('signUp', token, (hash) => findSignUp(sql, hash, now));
}

/** Returns the same page whether or not the address has an account. `again`: the page that asks for the address. */
export function signUpSent(email: string, { lifetimeMinutes, again }: { lifetimeMinutes: number; again: string }) {
  return noticeAnswer(200, {
    title: 'Check your inbox',
    good: html`A mail was sent to <strong>${email}</strong>.`,
    message: html`The link in it is valid for ${lifetimeMinutes} minutes and can be used once. If no mail arrives, check
    your spam folder and the address.`,
    link: { href: again, label: 'Enter another address' },
  });
}

const signUpPage = (root: string, email: string, fault?: FormFault): string =>
  cardPage(
    'Create an account',
    html`${alertOf(fault)}
      <p>We will mail you a link. Choose your password there.</p>
      ${postForm({ action: `${root}/sign-up`, fields: emailField(email, fault), submit: 'Send the link' })}
      <p><a href="${root}/sign-in">Sign in to an existing account</a></p>`,
  );

const newAccountPage = (root: string, { token, email }: SignUpLink, fault?: FormFault): string =>
  cardPage(
    'Choose a password',
    html`${alertOf(fault)}
      <p>Your account has the e-mail address <strong>${email}</strong>.</p>
      ${postForm({
        action: `${root}/sign-up/confirm`,
        hidden: { token },
        fields: html`${usernameField(email)} ${newPasswordField('Password', fault)}`,
        submit: 'Create the account',
      })}`,
  );

const existingAccount = (root: string): RawResponse =>
  noticeAnswer(409, {
    title: 'Account exists',
    alert: 'There is an account with this e-mail address already.',
    link: { href: `${root}/sign-in`, label: 'Sign in', isButton: true },
  });

async function createAccount(
  runtime: Runtime,
  { passwords, sessions, factors }: People,
  { erasure, request, link }: { erasure: UserErasure; request: RawRequest; link: SignUpLink },
): Promise<RawResponse> {
  const root = rootOf(runtime.config.authUrl);
  const { email, hash } = link;
  const { now } = request;
  const password = request.form.get('password') ?? '';
  const fault = await passwordFieldFault({ email, password, hasSecondFactor: false });
  if (fault !== undefined) return htmlAnswer(422, newAccountPage(root, link, fault));
  const { passwordHash } = await prepareUser(passwords, { email, password });
  try {
    const session = await transaction(runtime.sql, async (tx) => {
      if (!(await consumeSignUp(tx, hash, now))) return undefined;
      await deleteSignUps(tx, email);
      await erasure.eraseUnverified(tx, email, request);
      const { id } = await addUser(tx, { email, passwordHash }, { origin: originOf(request), now });
      // Another user may be signed in in this browser.
      await sessions.end(tx, request);
      return sessions.start(tx, id, request);
    });
    if (session === undefined) return invalidLink(`${root}/sign-up`);
    const cookies = [session, ...factors.devices.remember(request, { email, passwordHash })];
    return redirectAnswer(`${root}/home`, { 'Set-Cookie': cookies });
  } catch (error) {
    // The operator or an invitation created the account since the link was mailed.
    if (error instanceof Problem && error.status === 409) return existingAccount(root);
    throw error;
  }
}

export function createSignUp(runtime: Runtime, people: People, erasure: UserErasure) {
  const { sql, mailer, config } = runtime;
  const { authUrl, accounts } = config;
  const { signUpMinutes: lifetimeMinutes } = accounts;
  const root = rootOf(authUrl);
  const again = `${root}/sign-up`;
  const at = { confirmAt: `${authUrl}/sign-up/confirm`, signInAt: `${authUrl}/sign-in` };
  /** Throws a 404 unless people may sign up. */
  const admitted = (): SignUpSender => {
    if (!accounts.allowsSignUp || mailer === undefined) throw notFound('page');
    return { sql, mailer, config };
  };
  const whereAdmitted =
    (handle: RawHandler): RawHandler =>
    async (request) => {
      admitted();
      return handle(request);
    };
  const confirm = followLink<{ email: string }>('signUp', {
    find: (hash, now) => findSignUp(sql, hash, now),
    invalid: () => invalidLink(again),
    show: (link) => htmlAnswer(200, newAccountPage(root, link)),
    submit: (request, link) => createAccount(runtime, people, { erasure, request, link }),
  });
  return {
    request: {
      show: whereAdmitted(async () => htmlAnswer(200, signUpPage(root, ''))),
      submit: async (request: RawRequest) => {
        const sender = admitted();
        return askForLink(runtime, people.throttle, request, {
          typed: request.form.get('email') ?? '',
          refuse: (typed) => htmlAnswer(422, signUpPage(root, typed, INVALID_EMAIL)),
          mailTo: async (email) => signUpMailTo(sender, request, email, at),
          advice: html`<p>Check your inbox and your spam folder.</p>`,
          sent: (email) => signUpSent(email, { lifetimeMinutes, again }),
          failure: SIGN_UP_FAILURE,
        });
      },
    },
    confirm: { show: whereAdmitted(confirm.show), submit: whereAdmitted(confirm.submit) },
  };
}
