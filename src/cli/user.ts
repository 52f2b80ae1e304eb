/** `halcyon user create|disable|enable|set-password|reset-link`. */
import { randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { recordAuditEntry } from '#identity/accounts/audit/audit.ts';
import { createLinks } from '#identity/accounts/password/links.ts';
import { replacePassword, type EndGrants } from '#identity/accounts/password/replace.ts';
import { createPasswords } from '#identity/accounts/passwords.ts';
import { findUserByEmail, lockUser, updateDisabled, type Credentials } from '#identity/accounts/accounts-sql.ts';
import { addUser, prepareUser } from '#identity/accounts/users.ts';
import { OPERATOR } from '#changelog/changelog.ts';
import { transaction, type Queryable } from '#db/pool.ts';
import { revokeGrantsOf } from '#identity/oauth/connected/connected.ts';
import { readConfig } from '#config/config.ts';
import { answer, examples } from './command.ts';
import { UserError } from './explain.ts';
import { asGuest } from './guest.ts';
import type { Terminal } from './terminal.ts';

/** What is done here is done on the machine itself: nobody's address stands in the audit. */
const origin = null;

const passwords = createPasswords({ hashesAtOnce: 1 });
const newPassword = (): string => randomBytes(12).toString('base64url');

const existing = async (sql: Queryable, email: string): Promise<Credentials> => {
  const user = await findUserByEmail(sql, email);
  if (user === undefined) throw new UserError(`There is no user with the e-mail address ${email}`);
  return user;
};

const create = (terminal: Terminal, email: string): Promise<void> =>
  asGuest(terminal, async ({ sql }) => {
    const password = newPassword();
    const user = await prepareUser(passwords, { email, password });
    const { id } = await transaction(sql, (tx) => addUser(tx, user, { origin, now: new Date() }));
    answer(terminal, { id, email, password });
  });

const setDisabled = (terminal: Terminal, email: string, isDisabled: boolean): Promise<void> =>
  asGuest(terminal, async ({ sql, stopWebhooks }) => {
    const now = new Date();
    const { id } = await existing(sql, email);
    await transaction(sql, async (tx) => {
      if (!(await updateDisabled(tx, id, isDisabled ? now : null))) return;
      if (isDisabled) await stopWebhooks(tx, { userId: id }, now);
      await recordAuditEntry(tx, { action: isDisabled ? 'user_disabled' : 'user_enabled', userId: id, origin, now });
    });
    answer(terminal, { id, email, disabled: isDisabled });
  });

const setPassword = (terminal: Terminal, email: string, disconnectsApps: boolean): Promise<void> =>
  asGuest(terminal, async (guest) => {
    const { sql } = guest;
    const { id } = await existing(sql, email);
    const password = newPassword();
    const passwordHash = await passwords.hash(password);
    const endGrants: EndGrants = (tx, which) => revokeGrantsOf(tx, guest, which);
    await transaction(sql, async (tx) => {
      await lockUser(tx, id);
      await replacePassword(tx, {
        action: 'password_changed',
        userId: id,
        passwordHash,
        endGrants: disconnectsApps ? endGrants : undefined,
        actor: OPERATOR,
        origin,
        now: new Date(),
      });
    });
    answer(terminal, { id, email, password });
  });

const resetLink = (terminal: Terminal, email: string): Promise<void> =>
  asGuest(terminal, async ({ sql }) => {
    const { authUrl, accounts } = readConfig(terminal.env, terminal.cwd);
    const { id } = await existing(sql, email);
    const links = createLinks({ sql, authUrl, lifetimeMinutes: accounts.passwordResetMinutes });
    const link = await links.issue(id, { origin, now: new Date() });
    if (link === undefined)
      throw new UserError(`${email} is disabled: let them in first, with halcyon user enable ${email}`);
    // By itself where a person asked, who is about to send it on.
    if (terminal.isJson === true) answer(terminal, { id, email, url: link });
    else terminal.print(link);
  });

export const createUserCommand = (terminal: Terminal): Command => {
  const command = new Command('user').description('people who sign in');
  const add = (name: string, description: string): Command =>
    command
      .command(name)
      .description(description)
      .argument('<email>', 'the address they sign in with')
      .addHelpText('after', examples(`halcyon user ${name} ada@example.com`));
  add('create', 'create a user and print the password that was generated').action((email: string) =>
    create(terminal, email),
  );
  add(
    'disable',
    'keep a user out: their sessions and the apps they let in stop at once, and the webhooks of these apps are switched off',
  ).action((email: string) => setDisabled(terminal, email, true));
  add(
    'enable',
    'let a disabled user in again, with their sessions and apps; webhooks stay off until they are switched on',
  ).action((email: string) => setDisabled(terminal, email, false));
  add('set-password', 'give a user a new password, print it, and end all of their sessions')
    .option('--disconnect-apps', 'also end what they have let in')
    .action((email: string, options: { disconnectApps?: true }) =>
      setPassword(terminal, email, options.disconnectApps === true),
    );
  add('reset-link', 'print a link by which a user chooses a new password, once').action((email: string) =>
    resetLink(terminal, email),
  );
  return command;
};
