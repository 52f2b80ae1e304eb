/** `halcyon user create|disable|enable|set-password|reset-link|remove-second-factors|operator`. */
import { randomBytes } from 'node:crypto';
import { recordAuditEntry } from '#identity/accounts/audit.ts';
import { deleteFactors } from '#identity/accounts/factors/factors-sql.ts';
import { createLinks, replacePassword, type EndGrants } from '#identity/accounts/password-change.ts';
import { createPasswords, PASSWORD_COST, addUser, prepareUser } from '#identity/accounts/users.ts';
import { deleteSessionsOf, findUserByEmail, lockUser, updateOperator } from '#identity/accounts/accounts-sql.ts';
import { setDisabledIn } from '#identity/accounts/user-end.ts';
import { OPERATOR } from '#changelog/changelog.ts';
import { readEmail } from '#core/email.ts';
import { transaction } from '#db/pool.ts';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { printResult, CliCommand } from './command.ts';
import { withContext, type CommandContext } from './command-context.ts';
import { UserError } from './explain.ts';
import type { Terminal } from './terminal.ts';

/** Commands run on the machine itself, so the audit entry has no IP address. */
const origin = null;

const passwords = createPasswords({ hashesAtOnce: 1, cost: PASSWORD_COST });
const newPassword = (): string => randomBytes(12).toString('base64url');

const create = (terminal: Terminal, email: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const password = newPassword();
    const user = await prepareUser(passwords, { email, password });
    const { id } = await transaction(sql, (tx) => addUser(tx, user, { origin, now }));
    printResult(terminal, { id, email, password });
  });

/** Changes a user, and returns what the result has beside id and e-mail address. */
type Change<Options> = (
  context: CommandContext,
  user: { id: number; email: string },
  options: Options,
) => Promise<{ url?: string } | { password: string } | { disabled: boolean } | { operator: boolean }>;

const setDisabled =
  (isDisabled: boolean): Change<object> =>
  async ({ sql, accessChanged, now }, { id }) => {
    await transaction(sql, async (tx) => {
      await setDisabledIn(tx, accessChanged, { userId: id, isDisabled, now });
    });
    return { disabled: isDisabled };
  };

const setPassword: Change<{ disconnectApps?: true }> = async (context, { id }, { disconnectApps }) => {
  const { sql, now } = context;
  const password = newPassword();
  const passwordHash = await passwords.hash(password);
  const endGrants: EndGrants = (tx, which) => revokeGrantsOf(tx, context, which);
  await transaction(sql, async (tx) => {
    await lockUser(tx, id);
    await replacePassword(tx, {
      action: 'password_changed',
      userId: id,
      passwordHash,
      endGrants: disconnectApps === true ? endGrants : undefined,
      actor: OPERATOR,
      origin,
      now,
    });
  });
  return { password };
};

const removeFactors: Change<object> = async ({ sql, now }, { id }) => {
  await transaction(sql, async (tx) => {
    await lockUser(tx, id);
    if (!(await deleteFactors(tx, id))) return;
    await deleteSessionsOf(tx, id);
    await recordAuditEntry(tx, { action: 'second_factors_removed', userId: id, origin, now });
  });
  return {};
};

const setOperator: Change<{ remove?: true }> = async ({ sql, now }, { id, email }, { remove }) => {
  const isOperator = remove !== true;
  await transaction(sql, async (tx) => {
    const user = await lockUser(tx, id);
    // When a person verifies the address, a new account replaces this one.
    if (isOperator && user?.isEmailVerified !== true)
      throw new UserError(
        `The address ${email} is not verified: halcyon user reset-link ${email} prints a link that verifies it`,
      );
    if (!(await updateOperator(tx, id, isOperator))) return;
    const action = isOperator ? 'operator_added' : 'operator_removed';
    await recordAuditEntry(tx, { action, userId: id, origin, now });
  });
  return { operator: isOperator };
};

const resetLink: Change<object> = async ({ sql, now, config }, { id, email }) => {
  const link = await createLinks({ sql, config }).issue(id, { origin, now });
  if (link === undefined) throw new UserError(`${email} is disabled: run halcyon user enable ${email} first`);
  return { url: link };
};

export function createUserCommand(terminal: Terminal): CliCommand {
  const command = new CliCommand('user').description('people who sign in');
  const add = (name: string, description: string): CliCommand =>
    command
      .command(name)
      .description(description)
      .argument('<email>', 'the address they sign in with')
      .examples(`halcyon user ${name} ada@example.com`);
  const changing =
    <Options>(change: Change<Options>) =>
    (email: string, options: Options): Promise<void> =>
      withContext(terminal, async (context) => {
        const user = await findUserByEmail(context.sql, readEmail(email) ?? email);
        if (user === undefined) throw new UserError(`There is no user with the e-mail address ${email}`);
        const result = await change(context, { id: user.id, email }, options);
        // The text output is the link alone, ready to be sent on.
        if (terminal.isJson !== true && 'url' in result && result.url !== undefined) terminal.print(result.url);
        else printResult(terminal, { id: user.id, email, ...result });
      });
  add('create', 'create a user and print the generated password').action((email: string) => create(terminal, email));
  add(
    'disable',
    'disable a user: their sessions and the access of their apps end at once, and the webhooks of these apps are disabled',
  ).action(changing(setDisabled(true)));
  add(
    'enable',
    'enable a disabled user again, with their apps; the user signs in again, and webhooks stay disabled until they are enabled',
  ).action(changing(setDisabled(false)));
  add('set-password', 'set a new password, print it, and end all sessions of the user')
    .option('--disconnect-apps', 'also end the access of all apps')
    .action(changing(setPassword));
  add('reset-link', 'print a single-use link to choose a new password').action(changing(resetLink));
  add(
    'remove-second-factors',
    'remove the passkeys, authenticator app and recovery codes of a user who has lost them, and end all sessions: the password alone signs in again',
  ).action(changing(removeFactors));
  add(
    'operator',
    'let a user see all stores and apps on the pages below /operator, for which they need a second factor',
  )
    .option('--remove', 'take the role from the user')
    .action(changing(setOperator));
  return command;
}
