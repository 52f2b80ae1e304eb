/** Changes the password of a signed-in user (/account/password), and what every new password of an account ends. */
import { inPerson, type Actor } from '#changelog/changelog.ts';
import { transaction, type Queryable } from '#db/pool.ts';
import { redirectAnswer } from '#http/answers.ts';
import { rootOf } from '#http/root.ts';
import type { RawRequest } from '#http/route.ts';
import { html, type Markup } from '#hypermedia/markup.ts';
import type { Runtime } from '#runtime/runtime.ts';
import { deleteSessionsOf, lockUser, updatePassword, type Credentials } from './accounts-sql.ts';
import { originOf, recordAuditEntry, type Origin } from './audit/audit.ts';
import { findFactors } from './factors/factors-sql.ts';
import { hasSecondFactor } from './factors/second-factor.ts';
import { deleteResetsOf } from './links-sql.ts';
import {
  accountNav,
  alertOf,
  cardPage,
  choice,
  currentPasswordField,
  formPage,
  newPasswordField,
  postForm,
  tooManyAnswer,
  usernameField,
  WRONG_PASSWORD,
  type FormFault,
  type FormHandlers,
} from './page-kit.ts';
import type { People } from './people.ts';
import type { Session, Sessions } from './sessions.ts';
import { passwordFault } from './users.ts';

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
export function newPasswordFields(view: { fault: FormFault | undefined; hasSecondFactor: boolean }): Markup {
  return html`${newPasswordField('New password', view.fault, view)}
  ${choice({
    name: 'end_grants',
    label: 'Also disconnect all connected apps',
    hint: 'Connected apps keep their access when the password changes. Select this if another person may have connected one.',
  })}`;
}

/**
 * Replaces the password and returns the cookie of the new session; undefined if the password has changed since it was
 * verified.
 */
const replace = (
  { sql }: Pick<Runtime, 'sql'>,
  { sessions, endGrants: end }: { sessions: Sessions; endGrants: EndGrants },
  request: RawRequest,
  { user, passwordHash }: { user: Credentials; passwordHash: string },
): Promise<string | undefined> =>
  transaction(sql, async (tx) => {
    const { now } = request;
    const locked = await lockUser(tx, user.id);
    if (locked === undefined || locked.isDisabled || locked.passwordHash !== user.passwordHash) return undefined;
    const endGrants = request.form.get('end_grants') === '1' ? end : undefined;
    const by = { actor: inPerson(user.id), origin: originOf(request), now };
    await replacePassword(tx, { action: 'password_changed', userId: user.id, passwordHash, endGrants, ...by });
    return sessions.start(tx, user.id, request);
  });

export function createChange(runtime: Runtime, people: People, endGrants: EndGrants): FormHandlers {
  const { signedIn, passwords, sessions, factors, securityMails } = people;
  const { attempts, advice } = factors;
  const root = rootOf(runtime.config.authUrl);
  const hasFactor = async ({ userId }: Session) => hasSecondFactor(await findFactors(runtime.sql, userId));
  return formPage(signedIn, {
    name: 'password',
    guard: 'passwordForm',
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
    submit: async (request, session, again) => {
      const { email } = session;
      const password = request.form.get('password') ?? '';
      const fault = await passwordFault({ email, password, hasSecondFactor: await hasFactor(session) });
      if (fault !== undefined)
        return again(422, { fault: { field: 'password', message: `The new ${fault.message}.` } });
      const attempt = await attempts(request, { email, password: request.form.get('current') ?? '' });
      if (attempt.kind === 'too many') return tooManyAnswer(root, attempt, advice);
      if (attempt.kind === 'wrong') return again(422, { fault: WRONG_PASSWORD });
      const passwordHash = await passwords.hash(password);
      const { user } = attempt;
      const cookie = await replace(runtime, { sessions, endGrants }, request, { user, passwordHash });
      if (cookie === undefined) return again(422, { fault: WRONG_PASSWORD });
      securityMails?.passwordChanged(request, user);
      const cookies = [cookie, ...factors.devices.remember(request, { email, passwordHash })];
      return redirectAnswer(`${root}/account?done=password`, { 'Set-Cookie': cookies });
    },
  });
}
