/** `halcyon user create|disable|enable|set-password|reset-link|remove-second-factors`. */
import { randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { recordAuditEntry } from '#identity/accounts/audit.ts';
import { deleteFactors } from '#identity/accounts/factors/factors-sql.ts';
import { createLinks, replacePassword, type EndGrants } from '#identity/accounts/password-change.ts';
import { createPasswords, PASSWORD_COST } from '#identity/accounts/passwords.ts';
import {
  deleteSessionsOf,
  findUserByEmail,
  lockUser,
  updateDisabled,
  type Credentials,
} from '#identity/accounts/accounts-sql.ts';
import { addUser, prepareUser } from '#identity/accounts/users.ts';
import { OPERATOR } from '#changelog/changelog.ts';
import { readEmail } from '#core/email.ts';
import { transaction, type Queryable } from '#db/pool.ts';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { readConfig } from '#config/config.ts';
import { printResult, examples } from './command.ts';
import { UserError } from './explain.ts';
import { withContext } from './command-context.ts';
import type { Terminal } from './terminal.ts';

/** Commands run on the machine itself, so the audit entry has no IP address. */
const origin = null;

const passwords = createPasswords({ hashesAtOnce: 1, cost: PASSWORD_COST });
const newPassword = (): string => randomBytes(12).toString('base64url');

async function existing(sql: Queryable, email: string): Promise<Credentials> {
  const user = await findUserByEmail(sql, readEmail(email) ?? email);
  if (user === undefined) throw new UserError(`There is no user with the e-mail address ${email}`);
  return user;
}

const create = (terminal: Terminal, email: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const password = newPassword();
    const user = await prepareUser(passwords, { email, password });
    const { id } = await transaction(sql, (tx) => addUser(tx, user, { origin, now }));
    printResult(terminal, { id, email, password });
  });

const setDisabled = (terminal: Terminal, email: string, isDisabled: boolean): Promise<void> =>
  withContext(terminal, async ({ sql, accessChanged, now }) => {
    const { id } = await existing(sql, email);
    await transaction(sql, async (tx) => {
      if (!(await updateDisabled(tx, id, isDisabled ? now : null))) return;
      await accessChanged(tx, { userId: id }, now);
      await recordAuditEntry(tx, { action: isDisabled ? 'user_disabled' : 'user_enabled', userId: id, origin, now });
    });
    printResult(terminal, { id, email, disabled: isDisabled });
  });

const setPassword = (terminal: Terminal, email: string, disconnectsApps: boolean): Promise<void> =>
  withContext(terminal, async (context) => {
    const { sql, now } = context;
    const { id } = await existing(sql, email);
    const password = newPassword();
    const passwordHash = await passwords.hash(password);
    const endGrants: EndGrants = (tx, which) => revokeGrantsOf(tx, context, which);
    await transaction(sql, async (tx) => {
      await lockUser(tx, id);
      await replacePassword(tx, {
        action: 'password_changed',
        userId: id,
        passwordHash,
        endGrants: disconnectsApps ? endGrants : undefined,
        actor: OPERATOR,
        origin,
        now,
      });
    });
    printResult(terminal, { id, email, password });
  });

const resetLink = (terminal: Terminal, email: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const { id } = await existing(sql, email);
    const links = createLinks({ sql, config: readConfig(terminal.env, terminal.cwd) });
    const link = await links.issue(id, { origin, now });
    if (link === undefined) throw new UserError(`${email} is disabled: run halcyon user enable ${email} first`);
    // The text output is the link alone, ready to be sent on.
    if (terminal.isJson === true) printResult(terminal, { id, email, url: link });
    else terminal.print(link);
  });

const removeFactors = (terminal: Terminal, email: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const { id } = await existing(sql, email);
    await transaction(sql, async (tx) => {
      await lockUser(tx, id);
      if (!(await deleteFactors(tx, id))) return;
      await deleteSessionsOf(tx, id);
      await recordAuditEntry(tx, { action: 'second_factors_removed', userId: id, origin, now });
    });
    printResult(terminal, { id, email });
  });

export function createUserCommand(terminal: Terminal): Command {
  const command = new Command('user').description('people who sign in');
  const add = (name: string, description: string): Command =>
    command
      .command(name)
      .description(description)
      .argument('<email>', 'the address they sign in with')
      .addHelpText('after', examples(`halcyon user ${name} ada@example.com`));
  add('create', 'create a user and print the generated password').action((email: string) => create(terminal, email));
  add(
    'disable',
    'disable a user: their sessions and the access of their apps end at once, and the webhooks of these apps are disabled',
  ).action((email: string) => setDisabled(terminal, email, true));
  add(
    'enable',
    'enable a disabled user again, with their sessions and apps; webhooks stay disabled until they are enabled',
  ).action((email: string) => setDisabled(terminal, email, false));
  add('set-password', 'set a new password, print it, and end all sessions of the user')
    .option('--disconnect-apps', 'also end the access of all apps')
    .action((email: string, options: { disconnectApps?: true }) =>
      setPassword(terminal, email, options.disconnectApps === true),
    );
  add('reset-link', 'print a single-use link to choose a new password').action((email: string) =>
    resetLink(terminal, email),
  );
  add(
    'remove-second-factors',
    'remove the passkeys, authenticator app and recovery codes of a user who has lost them, and end all sessions: the password alone signs in again',
  ).action((email: string) => removeFactors(terminal, email));
  return command;
}
