/**
 * A new password: of a signed-in user (/account/password) or by a mailed link, and the sessions and links that it ends. /forgot-password
 * asks for the address to which the link is mailed, /reset-password uses the link.
 */
import { inPerson, type Actor } from '#changelog/changelog.ts';
import { transaction, type Queryable, type Tx } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawRequest } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { deleteSessionsOf, findUserByEmail, lockUser, updatePassword } from './accounts-sql.ts';
import { originOf, recordAuditEntry, type AuditEntry, type Origin } from './audit.ts';
import { findFactors, type Factors } from './factors/factors-sql.ts';
import { hasSecondFactor } from './factors/second-factor.ts';
import { consumeReset, deleteOlderResets, deleteResetsOf, findReset, insertReset } from './links-sql.ts';
import {
  accountNav,
  alertOf,
  cardPage,
  choice,
  currentPasswordField,
  emailField,
  newPasswordField,
  noticeAnswer,
  passwordFieldFault,
  postForm,
  type FormFault,
  type FormHandlers,
  usernameField,
} from './page-kit.ts';
import { passwordPage, type People } from './people.ts';
import type { Session } from './sessions.ts';
import { addUser } from './users.ts';
import { lockForErasure } from './users-sql.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import { lockVerified, type Bucket } from './throttle.ts';
import { askForLink, followLink, invalidLink, newLinkToken, type Found } from './mailed-links.ts';
import { PASSWORD_CHANGED, resetMail } from './account-mails.ts';
import type { SignInPages } from './sign-in.ts';
import type { UserErasure } from './user-end.ts';

/** Revokes all grants of a user and returns their number. Passed in, because accounts may not write the table of grants. */
export type EndGrants = (
  sql: Queryable,
  of: { userId: number; actor: Actor; origin: Origin | null; now: Date },
) => Promise<number>;

/**
 * Stores a new password and ends all sessions and reset links of the user. Grants remain unless `endGrants` is given. Call
 * it in a transaction that has locked the user's row.
 */
export async function replacePassword(
  sql: Queryable,
  change: {
    action: 'password_changed' | 'password_reset';
    userId: number;
    passwordHash: string;
    endGrants: EndGrants | undefined;
    actor: Actor;
    origin: Origin | null;
    now: Date;
  },
): Promise<void> {
  const { action, userId, actor, origin, now } = change;
  await updatePassword(sql, userId, change.passwordHash);
  await deleteResetsOf(sql, userId);
  await deleteSessionsOf(sql, userId);
  const grants = await change.endGrants?.(sql, { userId, actor, origin, now });
  await recordAuditEntry(sql, {
    action,
    userId,
    origin,
    detail: grants === undefined ? {} : { grants_ended: grants },
    now,
  });
}

/** Renders the fields of a new password for an account with connected apps. */
function newPasswordFields(view: { fault: FormFault | undefined; hasSecondFactor: boolean }): Markup {
  return html`${newPasswordField('New password', view.fault, view)}
  ${choice({
    name: 'end_grants',
    label: 'Also disconnect all connected apps',
    hint: 'Connected apps keep their access when the password changes. Select this if another person may have connected one.',
  })}`;
}

export function createChange(runtime: Runtime, people: People, end: EndGrants): FormHandlers {
  const { signedIn, passwords, sessions, factors, securityMails } = people;
  const root = rootOf(runtime.config.authUrl);
  const hasFactor = async ({ userId }: Session) => hasSecondFactor(await findFactors(runtime.sql, userId));
  return passwordPage(runtime, people, signedIn, {
    name: 'password',
    render: async (session, { nonce, fault }) => {
      const { email } = session;
      const fields = html`${usernameField(email)} ${currentPasswordField(fault)}
      ${newPasswordFields({ fault, hasSecondFactor: await hasFactor(session) })}`;
      const action = `${root}/account/password`;
      const cancel = { href: `${root}/account` };
      return cardPage(
        'Change your password',
        html`${alertOf(fault)}
          <p>For <strong>${email}</strong>. All other browsers are signed out.</p>
          ${postForm({ action, hidden: { nonce }, fields, submit: 'Change password', cancel })}`,
        accountNav(root),
      );
    },
    review: async ({ form }, session) => {
      const chosen = { email: session.email, password: form.get('password') ?? '' };
      const fault = await passwordFieldFault({ ...chosen, hasSecondFactor: await hasFactor(session) }, 'The new');
      return fault && { fault };
    },
    submit: async (request, { email }, user) => {
      const { form, now } = request;
      const passwordHash = await passwords.hash(form.get('password') ?? '');
      const endGrants = form.get('end_grants') === '1' ? end : undefined;
      const by = { actor: inPerson(user.id), origin: originOf(request), now };
      const cookie = await transaction(runtime.sql, async (tx) => {
        if ((await lockVerified(tx, user)) === undefined) return undefined;
        await replacePassword(tx, { action: 'password_changed', userId: user.id, passwordHash, endGrants, ...by });
        return sessions.start(tx, user.id, request);
      });
      if (cookie === undefined) return undefined;
      securityMails?.send(request, user, PASSWORD_CHANGED);
      const cookies = [cookie, ...factors.devices.remember(request, { email, passwordHash })];
      return redirectAnswer(`${root}/account?done=password`, { 'Set-Cookie': cookies });
    },
  });
}

/** More than one, otherwise any stranger's request would invalidate the link that the owner is about to use. */
const LINKS_MAX = 3;

export type Links = ReturnType<typeof createLinks>;

export function createLinks({ sql, config: { authUrl, accounts } }: Pick<Runtime, 'sql' | 'config'>) {
  const { passwordResetMinutes: lifetimeMinutes } = accounts;
  /**
   * Issues a link and deletes the user's older links except two; undefined if the user does not exist or is disabled. Call it in a
   * transaction.
   */
  const issueIn = async (tx: Tx, userId: number, by: Pick<AuditEntry, 'origin' | 'client' | 'now'>) => {
    const user = await lockUser(tx, userId);
    if (user === undefined || user.isDisabled) return undefined;
    const { token, hash } = newLinkToken('passwordReset');
    const expires = new Date(by.now.getTime() + lifetimeMinutes * 60_000);
    await deleteOlderResets(tx, { userId, kept: LINKS_MAX - 1 });
    await insertReset(tx, { hash, userId, now: by.now, expires });
    await recordAuditEntry(tx, { ...by, action: 'password_reset_requested', userId });
    return `${authUrl}/reset-password?token=${token}`;
  };
  return {
    lifetimeMinutes,
    issueIn,
    issue: (userId: number, by: Parameters<typeof issueIn>[2]) => transaction(sql, (tx) => issueIn(tx, userId, by)),
  };
}

const FORGOT = 'Forgot your password?';
const NO_ADDRESS: FormFault = { field: 'email', message: 'Enter the e-mail address you sign in with.' };

function forgotPages(root: string, { lifetimeMinutes }: Links) {
  const link = { href: `${root}/sign-in`, label: 'Back to sign-in' };
  return {
    form: (email: string, fault?: FormFault): string =>
      cardPage(
        FORGOT,
        html`${alertOf(fault)}
          <p>We will mail you a link for choosing a new one.</p>
          ${postForm({ action: `${root}/forgot-password`, fields: emailField(email, fault), submit: 'Send the link' })}
          <p><a href="${link.href}">${link.label}</a></p>`,
      ),
    sent: (email: string) =>
      noticeAnswer(200, {
        title: 'Check your inbox',
        good: html`If <strong>${email}</strong> has an account here, a mail has been sent to it.`,
        message: html`The link is valid for ${lifetimeMinutes} minutes and can be used once. If no mail arrives, check
        your spam folder, and whether you signed up with another address.`,
        link,
      }),
    noMail: () =>
      noticeAnswer(200, {
        title: FORGOT,
        message: 'This service does not send mail. Ask its operator for a reset link.',
        link,
      }),
  };
}

export function createForgot(runtime: Runtime, { throttle, factors: { devices } }: People, links: Links): FormHandlers {
  const { sql, mailer, config } = runtime;
  const { authUrl } = config;
  const { lifetimeMinutes } = links;
  const pages = forgotPages(rootOf(authUrl), links);
  return {
    show: async () => (mailer === undefined ? pages.noMail() : htmlAnswer(200, pages.form(''))),
    submit: async (request) => {
      if (mailer === undefined) return pages.noMail();
      return askForLink(runtime, throttle, request, {
        typed: request.form.get('email') ?? '',
        refuse: (typed) => htmlAnswer(422, pages.form(typed, NO_ADDRESS)),
        mailTo: async (email) => {
          const user = await findUserByEmail(sql, email);
          // The limits of a browser that has signed in to the account are its own.
          const device = devices.recognize(request, { email, passwordHash: user?.passwordHash ?? '' });
          const ofMailbox: readonly Bucket[] =
            device === undefined
              ? [
                  { limit: 'mail to account', subject: email },
                  { limit: 'mails to account a day', subject: email },
                ]
              : [{ limit: 'mails by device', subject: device }];
          const network: Bucket = { limit: 'mail from address', subject: addressPrefix(request.address) };
          const send = async (): Promise<void> => {
            if (user === undefined) return;
            const link = await links.issue(user.id, { origin: originOf(request), now: request.now });
            if (link !== undefined) mailer.send(resetMail({ to: user.email, link, lifetimeMinutes, authUrl }));
          };
          return { buckets: [network, ...ofMailbox], send };
        },
        advice: html`<p>
          Check your inbox and your spam folder: the links in the latest three mails are each valid for
          ${lifetimeMinutes} minutes.
        </p>`,
        sent: pages.sent,
        failure: 'password reset link failed',
      });
    },
  };
}

type ResetDeps = { pages: Pick<SignInPages, 'secondStep'>; endGrants: EndGrants; erasure: UserErasure };

type Choice = Found<Reset> & { passwordHash: string };

/** The cookie of the new session, or the second factors that the person has to use first. */
type Redeemed = { userId: number } & ({ session: string } | { factors: Factors });

/**
 * Consumes the link and replaces the password; undefined if the link has been used in the meantime. The link proves that a person
 * reads the mail of the account, not that they have its second factor; if the address was not verified before, they get a new account.
 */
const redeem = (
  { sql }: Pick<Runtime, 'sql'>,
  { sessions }: People,
  deps: ResetDeps,
  request: RawRequest,
  chosen: Choice,
): Promise<Redeemed | undefined> =>
  transaction(sql, async (tx) => {
    const { userId, hash, passwordHash } = chosen;
    const { now } = request;
    // Before the weaker lock: two transactions that both hold it could not erase the user.
    if (!chosen.isEmailVerified) await lockForErasure(tx, userId);
    const user = await lockUser(tx, userId);
    if (user === undefined || user.isDisabled || !(await consumeReset(tx, hash, now))) return undefined;
    if (!user.isEmailVerified) {
      const { email } = user;
      await sessions.end(tx, request);
      await deps.erasure.eraseUnverified(tx, email, request);
      const { id } = await addUser(tx, { email, passwordHash }, { origin: originOf(request), now });
      return { userId: id, session: await sessions.start(tx, id, request) };
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
    await sessions.end(tx, request);
    const factors = await findFactors(tx, userId);
    if (hasSecondFactor(factors)) return { userId, factors };
    return { userId, session: await sessions.start(tx, userId, request) };
  });

type Reset = { userId: number; email: string; isEmailVerified: boolean; hasSecondFactor: boolean };

function resetPage(
  root: string,
  { email, token, hasSecondFactor: keepsFactor }: Found<Reset>,
  fault?: FormFault,
): string {
  const fields = html`${usernameField(email)} ${newPasswordFields({ fault, hasSecondFactor: keepsFactor })}`;
  return cardPage(
    'Choose a new password',
    html`${alertOf(fault)}
      <p>For <strong>${email}</strong>. All browsers are signed out.</p>
      ${postForm({ action: `${root}/reset-password`, hidden: { token }, fields, submit: 'Save and sign in' })}`,
  );
}

export function createReset(runtime: Runtime, people: People, deps: ResetDeps): FormHandlers {
  const { sql } = runtime;
  const root = rootOf(runtime.config.authUrl);
  const invalid = () => invalidLink(`${root}/forgot-password`);
  return followLink<Reset>('passwordReset', {
    invalid,
    find: async (hash, now) => {
      const found = await findReset(sql, hash, now);
      if (found === undefined) return undefined;
      const keepsFactor = found.isEmailVerified && hasSecondFactor(await findFactors(sql, found.userId));
      return { ...found, hasSecondFactor: keepsFactor };
    },
    show: (link) => htmlAnswer(200, resetPage(root, link)),
    submit: async (request, link) => {
      const password = request.form.get('password') ?? '';
      const fault = await passwordFieldFault({ ...link, password }, 'The new');
      if (fault !== undefined) return htmlAnswer(422, resetPage(root, link, fault));
      const { email } = link;
      const passwordHash = await people.passwords.hash(password);
      const redeemed = await redeem(runtime, people, deps, request, { ...link, passwordHash });
      if (redeemed === undefined) return invalid();
      const user = { id: redeemed.userId, email };
      people.securityMails?.send(request, user, PASSWORD_CHANGED);
      if ('factors' in redeemed)
        return deps.pages.secondStep(
          request,
          { ...user, passwordHash, isDisabled: false, disabledReason: null, isEmailVerified: true },
          redeemed.factors,
        );
      const cookies = [redeemed.session, ...people.factors.devices.remember(request, { email, passwordHash })];
      return redirectAnswer(`${root}/account?done=password`, { 'Set-Cookie': cookies });
    },
  });
}
