/** `halcyon client create`, `rotate-secret`, `verify`, `delete` and `registration-token`. */
import { Command } from 'commander';
import { findUserByEmail } from '#identity/accounts/accounts-sql.ts';
import type { Sql } from '#db/pool.ts';
import { removeClient, verifyClient } from '#identity/oauth/clients/change.ts';
import { createClient, createPublicClient, isClientId } from '#identity/oauth/clients/clients.ts';
import { findClient } from '#identity/oauth/clients/clients-sql.ts';
import { rotateSecret } from '#identity/oauth/clients/secrets/secrets.ts';
import { notFound } from '#core/problem.ts';
import { readConfig } from '#config/config.ts';
import { answer, examples } from './command.ts';
import { UsageError, UserError } from './explain.ts';
import { asGuest } from './guest.ts';
import { addRegistrationToken } from './registration-token.ts';
import type { Terminal } from './terminal.ts';

type Options = {
  name: string;
  redirectUri: string[];
  company?: string;
  description?: string;
  contact?: string;
  owner?: string;
  public?: true;
  rotateRefreshTokens?: true;
  legacy?: true;
  trusted?: true;
};

/** What is done on the machine itself is the operator's, and comes from no address. */
const operator = () => ({ userId: null, origin: null, now: new Date() });

const requireClientId = (text: string): string => {
  if (isClientId(text)) return text;
  throw new UsageError('client_id must be letters, digits, hyphens and underscores, as `client create` printed it');
};

const ownerOf = async (sql: Sql, email: string | undefined): Promise<number | undefined> => {
  if (email === undefined) return undefined;
  const user = await findUserByEmail(sql, email);
  if (user === undefined) throw new UserError(`--owner: nobody signs in with ${email}`);
  return user.id;
};

const create = (terminal: Terminal, options: Options): Promise<void> =>
  asGuest(terminal, async ({ sql }) => {
    const { clientsPerUser } = readConfig(terminal.env, terminal.cwd).oauth;
    const userId = await ownerOf(sql, options.owner);
    const client = {
      name: options.name,
      company: options.company,
      description: options.description,
      contact: options.contact,
      redirectUris: options.redirectUri,
      trusted: options.trusted === true,
      isLegacy: options.legacy === true,
      rotatesRefreshTokens: options.rotateRefreshTokens === true,
      owner: userId === undefined ? undefined : { userId, clientsPerUser },
      now: new Date(),
    };
    const credentials = await (options.public === true ? createPublicClient : createClient)(sql, client);
    answer(terminal, credentials);
  });

const rotate = (terminal: Terminal, id: string, isAtOnce: boolean): Promise<void> =>
  asGuest(terminal, async ({ sql }) => {
    const { clientSecretOverlapHours } = readConfig(terminal.env, terminal.cwd).oauth;
    const overlapHours = isAtOnce ? 0 : clientSecretOverlapHours;
    const secret = await rotateSecret(sql, { clientId: id, overlapHours }, operator());
    const made = { client_id: id, client_secret: secret, older_secret_ends_in_hours: overlapHours };
    answer(terminal, made);
  });

/** Cannot be undone, so that a person is asked, and a program has to say that it means it. */
const confirm = async ({ ask }: Terminal, question: string): Promise<void> => {
  if (ask === undefined) throw new UserError('Nothing was deleted: say --yes where nobody is there to be asked');
  const said = await ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(said.trim())) throw new UserError('Nothing was deleted');
};

const remove = (terminal: Terminal, id: string, isSure: boolean): Promise<void> =>
  asGuest(terminal, async (guest) => {
    const client = await findClient(guest.sql, id);
    if (client === undefined) throw notFound('client');
    if (!isSure) await confirm(terminal, `Delete ${client.name} (${id})? Everybody's connection to it ends.`);
    await removeClient(guest, id, operator());
    answer(terminal, { client_id: id, deleted: true });
  });

const addCreate = (command: Command, terminal: Terminal): void => {
  command
    .command('create')
    .description('create a client and print its credentials; the secret is shown this once')
    .requiredOption('--name <name>', 'what store owners see')
    .option(
      '--redirect-uri <uri>',
      'where users are sent back to; may be repeated',
      (uri: string, all: string[]) => [...all, uri],
      [],
    )
    .option('--company <name>', 'who makes it')
    .option('--description <text>', 'what it does')
    .option('--contact <email>', 'whom to ask about it')
    .option('--owner <email>', 'the user whose app it is, and who may change it on the pages')
    .option('--public', 'runs where it cannot keep a secret, and gets none (PKCE is mandatory)')
    .option('--rotate-refresh-tokens', 'replace refresh tokens at each use; of public clients they always are')
    .option('--legacy', 'may leave redirect_uri out at the token endpoint; needs exactly one')
    .option('--trusted', 'may publish events for any store (client_credentials, scope platform)')
    .addHelpText(
      'after',
      examples(
        'halcyon client create --name Mailer --redirect-uri https://mailer.example/callback',
        'halcyon client create --name Desk --public --redirect-uri http://127.0.0.1/callback',
        'halcyon client create --name Platform --trusted',
      ),
    )
    .action((options: Options) => create(terminal, options));
};

/** A command that does one thing to one client, and prints what it did. */
const addDeed = (
  command: Command,
  terminal: Terminal,
  deed: { name: string; description: string; done: string; run: (sql: Sql, id: string) => Promise<void> },
): void => {
  command
    .command(deed.name)
    .description(deed.description)
    .argument('<client_id>', 'as `client create` printed it', requireClientId)
    .addHelpText('after', examples(`halcyon client ${deed.name} 5f0c1d9e8b7a6f5e4d3c2b1a`))
    .action((id: string) =>
      asGuest(terminal, async ({ sql }) => {
        await deed.run(sql, id);
        answer(terminal, { client_id: id, [deed.done]: true });
      }),
    );
};

export const createClientCommand = (terminal: Terminal): Command => {
  const command = new Command('client').description('OAuth clients: apps, and the platform itself');
  addCreate(command, terminal);
  command
    .command('rotate-secret')
    .description('make a new secret, shown this once; older ones go on for a day')
    .argument('<client_id>', 'as `client create` printed it', requireClientId)
    .option('--now', 'end all older ones at once, for one that somebody else has seen')
    .addHelpText('after', examples('halcyon client rotate-secret 5f0c1d9e8b7a6f5e4d3c2b1a --now'))
    .action((id: string, options: { now?: true }) => rotate(terminal, id, options.now === true));
  addDeed(command, terminal, {
    name: 'verify',
    description: 'say that you have looked at a client; the consent page then no longer calls it unverified',
    done: 'verified',
    run: (sql, id) => verifyClient(sql, id, operator()),
  });
  command
    .command('delete')
    .description('delete a client; all that people have allowed it ends at once')
    .argument('<client_id>', 'as `client create` printed it', requireClientId)
    .option('--yes', 'without asking first')
    .addHelpText('after', examples('halcyon client delete 5f0c1d9e8b7a6f5e4d3c2b1a --yes'))
    .action((id: string, options: { yes?: true }) => remove(terminal, id, options.yes === true));
  addRegistrationToken(command, terminal);
  return command;
};
