/**
 * Changes the e-mail address of a person: /account/email requests the change with the password, the link mailed to the new address
 * makes it, and the link mailed to the former address cancels or undoes it.
 *
 * Each step locks the user first, then the changes, as every change of credentials does.
 */
import { PostgresError } from '#db/connection.ts';
import { transaction, type Sql, type Tx } from '#db/pool.ts';
import { htmlAnswer, redirectAnswer } from '#http/answers.ts';
import type { RawHandler, RawRequest, RawResponse } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import { readEmail } from '#core/email.ts';
import type { Mailer } from '#mail/mail.ts';
import { deleteSessionsOf, findUserByEmail, lockUser, type Credentials } from '../accounts-sql.ts';
import type { Attempts } from '../attempts.ts';
import { originOf, recordAuditEntry, type Action } from '../audit/audit.ts';
import type { Devices } from '../device.ts';
import { hashOfLinkToken, newLinkToken } from '../link-token.ts';
import { deleteResetsOf } from '../password/password-sql.ts';
import { WRONG_PASSWORD, type FormFault } from '../password/pages.ts';
import type { Session } from '../sessions.ts';
import type { SignedIn } from '../signed-in.ts';
import { addressPrefix } from '../throttle/prefix.ts';
import type { Throttle } from '../throttle/throttle.ts';
import { tooManyAnswer } from '../too-many.ts';
import {
  consumePendingChange,
  deleteChangesFrom,
  deletePendingChanges,
  findPendingChange,
  findUndoableChange,
  insertEmailChange,
  updateEmail,
  type EmailChange,
} from './email-sql.ts';
import { confirmMail, requestedMail, takenMail } from './mails.ts';
import {
  changeEmailPage,
  confirmEmailPage,
  emailNoticePage,
  emailSentPage,
  emailUndonePage,
  INVALID_LINK,
  NO_MAIL,
  TAKEN,
  undoEmailPage,
} from './pages.ts';

export type ChangeEmailDeps = {
  sql: Sql;
  attempts: Attempts;
  throttle: Throttle;
  devices: Devices;
  signedIn: SignedIn;
  /** Undefined if mail is not configured. */
  mailer: Mailer | undefined;
  /** Lifetime of the link that makes the change. */
  emailConfirmHours: number;
  /** Time in which the change can be undone. */
  emailUndoDays: number;
  authUrl: string;
  root: string;
  /** Advice on the page for too many attempts. */
  advice: Markup;
};

const FORM = ['change email'] as const;
const CONFIRM_FORM = ['confirm email'] as const;
const INVALID: FormFault = { field: 'email', message: 'Enter an address such as ada@example.com.' };
const SAME: FormFault = { field: 'email', message: 'This is your e-mail address already.' };

const later = (now: Date, hours: number): Date => new Date(now.getTime() + hours * 3_600_000);
const isTaken = (error: unknown): boolean => error instanceof PostgresError && error.code === '23505';

const audit = (tx: Tx, request: RawRequest, userId: number, action: Action): Promise<void> =>
  recordAuditEntry(tx, { action, userId, origin: originOf(request), now: request.now });

/**
 * Stores the request and returns the tokens of its links; undefined if the password has changed since it was verified. A request for
 * a taken address is stored like others, because its link is not mailed.
 */
const store = (deps: ChangeEmailDeps, request: RawRequest, user: Credentials, newEmail: string) =>
  transaction(deps.sql, async (tx) => {
    const { now } = request;
    const locked = await lockUser(tx, user.id);
    if (locked === undefined || locked.isDisabled || locked.passwordHash !== user.passwordHash) return undefined;
    const [confirm, undo] = [newLinkToken('emailChange'), newLinkToken('emailUndo')];
    await deletePendingChanges(tx, user.id);
    await insertEmailChange(tx, {
      userId: user.id,
      oldEmail: locked.email,
      newEmail,
      hash: confirm.hash,
      undoHash: undo.hash,
      now,
      expires: later(now, deps.emailConfirmHours),
      undoExpires: later(now, deps.emailUndoDays * 24),
    });
    await audit(tx, request, user.id, 'email_change_requested');
    return { oldEmail: locked.email, confirm: confirm.token, undo: undo.token };
  });

/** The pages that a request for a change can lead to. */
function answersOf({ root, signedIn, emailConfirmHours }: ChangeEmailDeps) {
  return {
    form: (session: Session, status: number, newEmail = '', fault?: FormFault): RawResponse => {
      const nonce = signedIn.nonce(session, FORM);
      return htmlAnswer(status, changeEmailPage({ root, email: session.email, newEmail, nonce, fault }));
    },
    sent: (newEmail: string) => htmlAnswer(200, emailSentPage({ root, newEmail, lifetimeHours: emailConfirmHours })),
  };
}

/** Verifies the password, and mails both addresses. */
async function requestChange(
  deps: ChangeEmailDeps & { mailer: Mailer },
  request: RawRequest,
  session: Session,
): Promise<RawResponse> {
  const { sql, attempts, throttle, mailer, root, authUrl } = deps;
  const { form, sent } = answersOf(deps);
  const typed = request.form.get('email') ?? '';
  const newEmail = readEmail(typed);
  if (newEmail === undefined) return form(session, 422, typed, INVALID);
  if (newEmail === session.email) return form(session, 422, newEmail, SAME);
  const attempt = await attempts(request, { email: session.email, password: request.form.get('current') ?? '' });
  if (attempt.kind === 'too many') return tooManyAnswer(root, attempt, deps.advice);
  if (attempt.kind === 'wrong') return form(session, 422, newEmail, WRONG_PASSWORD);
  const taken = await throttle.take(
    [
      { limit: 'changes of address by person', subject: String(session.userId) },
      { limit: 'mail from address', subject: addressPrefix(request.address) },
      { limit: 'changes of address to mailbox', subject: `${newEmail} by ${session.userId}` },
      { limit: 'mails of others to mailbox', subject: newEmail },
    ],
    request.now,
  );
  if (!taken.allowed) return tooManyAnswer(root, taken, html`<p>Links that were mailed before stay valid.</p>`);
  const stored = await store(deps, request, attempt.user, newEmail);
  if (stored === undefined) return form(session, 422, newEmail, WRONG_PASSWORD);
  const other = await findUserByEmail(sql, newEmail);
  const mail = { oldEmail: stored.oldEmail, newEmail, authUrl };
  const isFree = other === undefined || other.id === session.userId;
  // The other account is mailed at its own spelling of the address.
  if (isFree) mailer.send(confirmMail(mail, stored.confirm, deps.emailConfirmHours));
  else mailer.send(takenMail({ ...mail, newEmail: other.email }));
  const undo = { token: stored.undo, address: request.address, undoDays: deps.emailUndoDays };
  mailer.send(requestedMail(mail, undo));
  return sent(newEmail);
}

type Outcome = 'changed' | 'invalid' | 'taken';

/** Thrown to roll back the use of the link. */
class Taken extends Error {}

/** Makes the change. A link whose address is taken stays usable, because the address may become free. */
async function makeChange(deps: ChangeEmailDeps, request: RawRequest, hash: Buffer, change: EmailChange) {
  const { userId, oldEmail, newEmail } = change;
  const { now } = request;
  try {
    return await transaction(deps.sql, async (tx): Promise<{ outcome: Outcome; passwordHash: string }> => {
      const user = await lockUser(tx, userId);
      const isCurrent = user?.email === oldEmail && !user.isDisabled;
      const undoExpires = later(now, deps.emailUndoDays * 24);
      if (!isCurrent || !(await consumePendingChange(tx, { hash, now, undoExpires })))
        return { outcome: 'invalid', passwordHash: '' };
      if (!(await updateEmail(tx, { userId, email: newEmail, now }))) throw new Taken();
      // Links to a new password were mailed to the former address.
      await deleteResetsOf(tx, userId);
      await audit(tx, request, userId, 'email_changed');
      return { outcome: 'changed', passwordHash: user.passwordHash };
    });
  } catch (error) {
    if (!(error instanceof Taken) && !isTaken(error)) throw error;
    return { outcome: 'taken', passwordHash: '' } as const;
  }
}

/** Cancels or undoes the change, and signs out all browsers: another person may have requested the change in one. */
async function undoChange(deps: ChangeEmailDeps, request: RawRequest, undoHash: Buffer): Promise<Outcome> {
  const { now } = request;
  const found = await findUndoableChange(deps.sql, undoHash, now);
  if (found === undefined) return 'invalid';
  const { userId } = found;
  try {
    return await transaction(deps.sql, async (tx): Promise<Outcome> => {
      await lockUser(tx, userId);
      // Read again with the lock: the change may have been made, or undone, concurrently.
      const change = await findUndoableChange(tx, undoHash, now);
      if (change === undefined || !(await deleteChangesFrom(tx, undoHash))) return 'invalid';
      if (change.isMade && !(await updateEmail(tx, { userId, email: change.oldEmail, now }))) throw new Taken();
      await deleteSessionsOf(tx, userId);
      await deleteResetsOf(tx, userId);
      await audit(tx, request, userId, change.isMade ? 'email_change_undone' : 'email_change_cancelled');
      return 'changed';
    });
  } catch (error) {
    if (!(error instanceof Taken) && !isTaken(error)) throw error;
    return 'taken';
  }
}

export type ChangeEmail = Record<'change' | 'confirm' | 'undo', Record<'show' | 'submit', RawHandler>>;

export function createChangeEmail(deps: ChangeEmailDeps): ChangeEmail {
  const { sql, signedIn, mailer, root } = deps;
  const { form } = answersOf(deps);
  const invalid = () => htmlAnswer(410, emailNoticePage(root, INVALID_LINK));
  const taken = () => htmlAnswer(409, emailNoticePage(root, TAKEN));
  const noMail = () => htmlAnswer(200, emailNoticePage(root, NO_MAIL));
  const findPending = async (token: string | null, { userId }: Session, now: Date) => {
    const hash = hashOfLinkToken('emailChange', token);
    const change = hash && (await findPendingChange(sql, { hash, userId, now }));
    return hash === undefined || change === undefined ? undefined : { hash, change, token: token ?? '' };
  };
  return {
    change: {
      show: signedIn.page(async (_request, session) => (mailer === undefined ? noMail() : form(session, 200))),
      submit: signedIn.passwordForm(
        () => FORM,
        async (request, session) =>
          mailer === undefined ? noMail() : requestChange({ ...deps, mailer }, request, session),
      ),
    },
    // Requires the session of the person: a mistyped address must not hand the account to its reader.
    confirm: {
      show: signedIn.page(async ({ query, now }, session) => {
        const found = await findPending(query.get('token'), session, now);
        if (found === undefined) return invalid();
        const { token, change } = found;
        const nonce = signedIn.nonce(session, CONFIRM_FORM);
        return htmlAnswer(200, confirmEmailPage({ root, token, newEmail: change.newEmail, nonce }));
      }),
      submit: signedIn.form(
        () => CONFIRM_FORM,
        async (request, session) => {
          const found = await findPending(request.form.get('token'), session, request.now);
          if (found === undefined) return invalid();
          const { outcome, passwordHash } = await makeChange(deps, request, found.hash, found.change);
          if (outcome === 'taken') return taken();
          if (outcome === 'invalid') return invalid();
          const cookies = deps.devices.remember(request, { email: found.change.newEmail, passwordHash });
          return redirectAnswer(`${root}/account?done=email`, { 'Set-Cookie': cookies });
        },
      ),
    },
    // Without a session: another person may have changed the password too.
    undo: {
      show: async ({ query, now }) => {
        const token = query.get('token');
        const hash = hashOfLinkToken('emailUndo', token);
        const change = hash && (await findUndoableChange(sql, hash, now));
        return change === undefined
          ? invalid()
          : htmlAnswer(200, undoEmailPage({ ...change, root, token: token ?? '' }));
      },
      submit: async (request) => {
        const hash = hashOfLinkToken('emailUndo', request.form.get('token'));
        const change = hash && (await findUndoableChange(sql, hash, request.now));
        if (hash === undefined || change === undefined) return invalid();
        const outcome = await undoChange(deps, request, hash);
        if (outcome === 'taken') return taken();
        return outcome === 'invalid'
          ? invalid()
          : htmlAnswer(200, emailUndonePage({ root, oldEmail: change.oldEmail }));
      },
    },
  };
}
