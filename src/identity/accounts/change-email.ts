/**
 * Changes the e-mail address of a person: /account/email requests the change with the password, the link mailed to the new address
 * makes it, and the link mailed to the former address cancels or undoes it.
 *
 * Each step locks the user first, then the changes, as every change of credentials does.
 */
import { codeOf } from '#db/unavailable.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawRequest, RawResponse } from '#http/route.ts';
import { rootOf } from '#http/root.ts';
import { html } from '#hypermedia/markup.ts';
import { readEmail } from '#core/email.ts';
import type { Mail, Mailer } from '#mail/mailer.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { deleteSessionsOf, findUserByEmail, lockUser, type Credentials } from './accounts-sql.ts';
import { originOf, recordAuditEntry, type Action } from './audit.ts';
import {
  consumePendingChange,
  deleteChangesFrom,
  deletePendingChanges,
  deleteResetsOf,
  findPendingChange,
  findUndoableChange,
  insertEmailChange,
  updateEmail,
  type EmailChange,
  type UndoableChange,
} from './links-sql.ts';
import { followLink, newLinkToken, type Found } from './mailed-links.ts';
import { confirmEmailMail, emailChangeMail, takenEmailMail } from './account-mails.ts';
import {
  accountNav,
  alertOf,
  cardPage,
  currentPasswordField,
  emailField,
  INVALID_EMAIL,
  noticeAnswer,
  postForm,
  tooManyAnswer,
  type FormFault,
  type FormHandlers,
} from './page-kit.ts';
import { addressPrefix } from '#core/address-prefix.ts';
import { lockVerified, type Throttle } from './throttle.ts';
import { passwordPage, type People } from './people.ts';
import type { Session } from './sessions.ts';

const CONFIRM_FORM = ['confirm email'] as const;

const SAME: FormFault = { field: 'email', message: 'This is your e-mail address already.' };

const later = (now: Date, hours: number): Date => new Date(now.getTime() + hours * 3_600_000);

/** Returns whether an error says that another user has got the address at the same time. */
export function isTaken(error: unknown): boolean {
  return codeOf(error) === '23505';
}

const audit = (tx: Tx, request: RawRequest, userId: number, action: Action): Promise<void> =>
  recordAuditEntry(tx, { action, userId, origin: originOf(request), now: request.now });

/** Stores the request for another address in place of earlier ones, and returns the tokens of its links. The user is locked. */
export async function requestIn(
  tx: Tx,
  change: EmailChange & { now: Date },
  { emailConfirmHours, emailUndoDays }: Runtime['config']['accounts'],
): Promise<{ confirm: string; undo: string; hash: Buffer; undoExpires: Date }> {
  const { userId, now } = change;
  const [confirm, undo] = [newLinkToken('emailChange'), newLinkToken('emailUndo')];
  const undoExpires = later(now, emailUndoDays * 24);
  await deletePendingChanges(tx, userId);
  await insertEmailChange(tx, {
    ...change,
    hash: confirm.hash,
    undoHash: undo.hash,
    expires: later(now, emailConfirmHours),
    undoExpires,
  });
  return { confirm: confirm.token, undo: undo.token, hash: confirm.hash, undoExpires };
}

/** Returns the mails to the new and the former address. `source`: by whom, or from which network address, the change was requested. */
export function changeMails(
  { authUrl, accounts }: Runtime['config'],
  { oldEmail, newEmail, confirm, undo }: Record<'oldEmail' | 'newEmail' | 'confirm' | 'undo', string>,
  source: string,
): [toNew: Mail, toOld: Mail] {
  const mail = { oldEmail, newEmail, authUrl };
  return [
    confirmEmailMail(mail, { token: confirm, lifetimeHours: accounts.emailConfirmHours }),
    emailChangeMail(mail, { token: undo, source, undoDays: accounts.emailUndoDays }),
  ];
}

const changeTitle = 'Change your e-mail address';

/** Returns the same page whether or not the new address has an account. */
const sentAnswer = ({ authUrl, accounts }: Runtime['config'], newEmail: string): RawResponse =>
  noticeAnswer(200, {
    title: 'Check your inbox',
    good: html`A mail was sent to <strong>${newEmail}</strong>.`,
    message: html`Your address changes when you open the link in it. The link is valid for ${accounts.emailConfirmHours}
    hours. Only the latest link works.`,
    link: { href: `${rootOf(authUrl)}/account`, label: 'Your account' },
    nav: accountNav(rootOf(authUrl)),
  });

const confirmPage = (root: string, { token, newEmail }: Found<EmailChange>, nonce: string): string =>
  cardPage(
    'Confirm your e-mail address',
    html`<p>From now on you sign in with <strong>${newEmail}</strong>.</p>
      ${postForm({
        action: `${root}/account/email/confirm`,
        hidden: { nonce, token },
        submit: 'Change the address',
        cancel: { href: `${root}/account` },
      })}`,
    accountNav(root),
  );

const undoPage = (root: string, { token, isMade, oldEmail }: Found<UndoableChange>): string =>
  cardPage(
    'Keep your e-mail address',
    html`<p>
        ${isMade ? html`The account gets <strong>${oldEmail}</strong> back.` : html`<strong>${oldEmail}</strong> stays the address of the account.`}
        All browsers are signed out.
      </p>
      ${postForm({ action: `${root}/undo-email`, hidden: { token }, submit: 'Keep this address' })}`,
  );

const undoneAnswer = (root: string, { oldEmail }: UndoableChange): RawResponse =>
  noticeAnswer(200, {
    title: 'Address kept',
    good: html`The address of the account is <strong>${oldEmail}</strong>, and all browsers are signed out.`,
    message: `If you did not request the change, another person knows your password: choose a new one, and disconnect all apps with it.`,
    link: { href: `${root}/forgot-password`, label: 'Choose a new password', isButton: true },
  });

/** The pages that end a change without making it. */
function endedAnswers(root: string) {
  const answer = (status: number, title: string, alert: string) => (): RawResponse =>
    noticeAnswer(status, { title, alert, link: { href: `${root}/account`, label: 'Your account' } });
  return {
    invalid: answer(
      410,
      'Link not valid',
      'The link was already used, has expired, belongs to another account, or was replaced by a newer one.',
    ),
    taken: answer(409, 'Address in use', 'Another account has this e-mail address. Nothing was changed.'),
    noMail: answer(
      200,
      changeTitle,
      'This service does not send mail, so it cannot verify a new address. Ask its operator.',
    ),
  };
}

/** Stores the change and mails both links; undefined if the password has changed since it was verified. */
async function requestChange(
  runtime: Runtime,
  throttle: Throttle,
  request: RawRequest,
  { mailer, user }: { mailer: Mailer; user: Credentials },
): Promise<RawResponse | undefined> {
  const { sql, config } = runtime;
  const newEmail = readEmail(request.form.get('email') ?? '') ?? '';
  const taken = await throttle.take(
    [
      { limit: 'changes of address by person', subject: String(user.id) },
      { limit: 'mail from address', subject: addressPrefix(request.address) },
      { limit: 'changes of address to mailbox', subject: `${newEmail} by ${user.id}` },
      { limit: 'mails of others to mailbox', subject: newEmail },
    ],
    request.now,
  );
  if (!taken.allowed)
    return tooManyAnswer(rootOf(config.authUrl), taken, html`<p>Links that were mailed before stay valid.</p>`);
  // A request for a taken address is stored like others, because its link is not mailed.
  const stored = await transaction(sql, async (tx) => {
    const locked = await lockVerified(tx, user);
    if (locked === undefined) return undefined;
    const change = { userId: user.id, oldEmail: locked.email, newEmail, now: request.now };
    const links = await requestIn(tx, change, config.accounts);
    await audit(tx, request, user.id, 'email_change_requested');
    return { ...change, ...links };
  });
  if (stored === undefined) return undefined;
  const other = await findUserByEmail(sql, newEmail);
  const [toNew, toOld] = changeMails(config, stored, `from the network address ${request.address}`);
  // The other account is mailed at its own spelling of the address.
  if (other === undefined || other.id === user.id) mailer.send(toNew);
  else mailer.send(takenEmailMail({ newEmail: other.email, authUrl: config.authUrl }));
  mailer.send(toOld);
  return sentAnswer(config, newEmail);
}

/** The error that rolls back the use of the link. */
class Taken extends Error {}

/** Runs a change in a transaction. A link whose address is taken stays usable, because the address may become free. */
async function unlessTaken<T>(sql: Sql, change: (tx: Tx) => Promise<T>): Promise<T | 'taken'> {
  try {
    return await transaction(sql, change);
  } catch (error) {
    if (!(error instanceof Taken) && !isTaken(error)) throw error;
    return 'taken';
  }
}

/** Makes the change, and returns the password hash of its user. */
function makeChange({ sql, config }: Runtime, request: RawRequest, { hash, ...change }: Found<EmailChange>) {
  const { userId, oldEmail, newEmail } = change;
  const { now } = request;
  return unlessTaken(sql, async (tx) => {
    const user = await lockUser(tx, userId);
    const isCurrent = user?.email === oldEmail && !user.isDisabled;
    const undoExpires = later(now, config.accounts.emailUndoDays * 24);
    if (!isCurrent || !(await consumePendingChange(tx, { hash, now, undoExpires }))) return 'invalid';
    if (!(await updateEmail(tx, { userId, email: newEmail, now }))) throw new Taken();
    // Links to a new password were mailed to the former address.
    await deleteResetsOf(tx, userId);
    await audit(tx, request, userId, 'email_changed');
    return { passwordHash: user.passwordHash };
  });
}

/** Cancels or undoes the change, and signs out all browsers: another person may have requested the change in one. */
function undoChange(sql: Sql, request: RawRequest, { hash, userId }: Found<UndoableChange>) {
  const { now } = request;
  return unlessTaken(sql, async (tx) => {
    await lockUser(tx, userId);
    // Reads it again with the lock: the change may have been made, or undone, concurrently.
    const change = await findUndoableChange(tx, hash, now);
    if (change === undefined || !(await deleteChangesFrom(tx, hash))) return 'invalid';
    if (change.isMade && !(await updateEmail(tx, { userId, email: change.oldEmail, now }))) throw new Taken();
    await deleteSessionsOf(tx, userId);
    await deleteResetsOf(tx, userId);
    await audit(tx, request, userId, change.isMade ? 'email_change_undone' : 'email_change_cancelled');
    return 'changed';
  });
}

/** Requires the session of the person: a mistyped address must not hand the account to its reader. */
function createConfirm(runtime: Runtime, { verified, factors }: People): FormHandlers {
  const root = rootOf(runtime.config.authUrl);
  const { invalid, taken } = endedAnswers(root);
  const { show, submit } = followLink<EmailChange, [Session]>('emailChange', {
    invalid,
    find: (hash, now, { userId }) => findPendingChange(runtime.sql, { hash, userId, now }),
    show: (link, session) => htmlAnswer(200, confirmPage(root, link, verified.nonce(session, CONFIRM_FORM))),
    submit: async (request, link) => {
      const outcome = await makeChange(runtime, request, link);
      if (outcome === 'taken') return taken();
      if (outcome === 'invalid') return invalid();
      const cookies = factors.devices.remember(request, { ...outcome, email: link.newEmail });
      return redirectAnswer(`${root}/account?done=email`, { 'Set-Cookie': cookies });
    },
  });
  return { show: verified.page(show), submit: verified.form(() => CONFIRM_FORM, submit) };
}

/** Works without a session: another person may have changed the password too. */
function createUndo({ sql, config }: Runtime): FormHandlers {
  const root = rootOf(config.authUrl);
  const { invalid, taken } = endedAnswers(root);
  return followLink<UndoableChange>('emailUndo', {
    invalid,
    find: (hash, now) => findUndoableChange(sql, hash, now),
    show: (link) => htmlAnswer(200, undoPage(root, link)),
    submit: async (request, link) => {
      const outcome = await undoChange(sql, request, link);
      if (outcome === 'taken') return taken();
      return outcome === 'invalid' ? invalid() : undoneAnswer(root, link);
    },
  });
}

export function createChangeEmail(runtime: Runtime, people: People) {
  const { mailer, config } = runtime;
  const { verified, throttle } = people;
  const root = rootOf(config.authUrl);
  const { noMail } = endedAnswers(root);
  const change = passwordPage(runtime, people, verified, {
    name: 'change email',
    render: async ({ email }, { nonce, fault, typed }) =>
      cardPage(
        changeTitle,
        html`${alertOf(fault)}
          <p>
            It is <strong>${email}</strong> now. We will mail the new address a link that makes the change, and this one
            a link that stops it.
          </p>
          ${postForm({
            action: `${root}/account/email`,
            hidden: { nonce },
            fields: html`<div class="field">${emailField(typed, fault, 'New e-mail address')}</div>
              ${currentPasswordField(fault)}`,
            submit: 'Send the link',
            cancel: { href: `${root}/account` },
          })}`,
        accountNav(root),
      ),
    review: async ({ form }, { email }) => {
      const typed = form.get('email') ?? '';
      const newEmail = readEmail(typed);
      if (newEmail === undefined) return { typed, fault: INVALID_EMAIL };
      return newEmail === email ? { typed, fault: SAME } : undefined;
    },
    submit: async (request, _session, user) =>
      mailer === undefined ? noMail() : requestChange(runtime, throttle, request, { mailer, user }),
  });
  return {
    change: mailer === undefined ? { ...change, show: verified.page(async () => noMail()) } : change,
    confirm: createConfirm(runtime, people),
    undo: createUndo(runtime),
  };
}
