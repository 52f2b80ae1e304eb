/** `halcyon client create`, `rotate-secret`, `verify`, `delete` and `registration-token`. */
import { findUserByEmail } from '#identity/accounts/accounts-sql.ts';
import { readEmail } from '#core/email.ts';
import { transaction, type Sql } from '#db/pool.ts';
import { removeClient, rotateSecret, verifyClient } from '#identity/oauth/clients/client-change.ts';
import { isClientId } from '#identity/oauth/protocol-requests.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { findClient } from '#identity/oauth/clients/clients-sql.ts';
import { grantStoreAccess } from '#identity/oauth/oauth-tokens.ts';
import { permissionsForStore, scopeEntries } from '#identity/oauth/scope.ts';
import { notFound } from '#core/problem.ts';
import {
  createRegistrationToken,
  idOfInvitation,
  revokeRegistrationToken,
} from '#identity/oauth/registration/registration.ts';
import { printResult, CliCommand } from './command.ts';
import { withContext } from './command-context.ts';
import { UsageError, UserError } from './explain.ts';
import type { Terminal } from './terminal.ts';

const DAYS_MAX = 365;

const createToken = (terminal: Terminal, days: number): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const token = await createRegistrationToken(sql, { days, now });
    printResult(terminal, { id: idOfInvitation(token), registration_token: token, days });
  });

const revoke = (terminal: Terminal, idOrToken: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    const id = await revokeRegistrationToken(sql, idOrToken, now);
    if (id === undefined) throw new UserError('--revoke: there is no such registration token, or it has expired');
    printResult(terminal, { id, revoked: true });
  });

function addRegistrationToken(command: CliCommand, terminal: Terminal): void {
  command
    .command('registration-token')
    .description('create a token for client registration (POST /register); shown only once')
    .number('--days <days>', 'how long it is valid', { min: 1, max: DAYS_MAX }, 7)
    .option('--revoke <id>', 'revoke a token instead, by its id or by the token itself')
    .examples(
      'halcyon client registration-token --days 30',
      'halcyon client registration-token --revoke 5f0c1d9e8b7a6f5e',
    )
    .action(({ days, revoke: revoked }: { days: number; revoke?: string }) =>
      revoked === undefined ? createToken(terminal, days) : revoke(terminal, revoked),
    );
}

type Options = {
  name: string;
  redirectUri?: string[];
  company?: string;
  description?: string;
  contact?: string;
  owner?: string;
  store?: number;
  public?: true;
  scope?: string;
  pkce?: true;
  rotateRefreshTokens?: true;
  deviceGrant?: true;
  legacy?: true;
  trusted?: true;
};

/** The actor of commands: the operator, without a user and an IP address. */
const operator = (now: Date) => ({ userId: null, origin: null, now });

function requireClientId(text: string): string {
  if (isClientId(text)) return text;
  throw new UsageError(
    'client_id must be letters, digits, hyphens and underscores, as `client create` printed it, or the address of a metadata document',
  );
}

async function ownerOf(sql: Sql, email: string | undefined): Promise<number | undefined> {
  if (email === undefined) return undefined;
  const user = await findUserByEmail(sql, readEmail(email) ?? email);
  if (user === undefined) throw new UserError(`--owner: there is no user with the e-mail address ${email}`);
  return user.id;
}

const create = (terminal: Terminal, options: Options): Promise<void> =>
  withContext(terminal, async (context) => {
    const { sql, now, config } = context;
    const { clientsPerUser } = config.oauth;
    const { requiresSecondFactor: requiresFactor } = config.accounts;
    const { store: storeId } = options;
    const userId = await ownerOf(sql, options.owner);
    if (storeId !== undefined && userId === undefined) throw new UsageError('--store needs --owner, a member of it');
    const client = {
      name: options.name,
      company: options.company,
      description: options.description,
      contact: options.contact,
      redirectUris: options.redirectUri ?? [],
      isPublic: options.public === true,
      trusted: options.trusted === true,
      scopes: options.scope === undefined ? null : scopeEntries(options.scope),
      requiresPkce: options.pkce === true,
      allowsDeviceGrant: options.deviceGrant === true,
      isLegacy: options.legacy === true,
      rotatesRefreshTokens: options.rotateRefreshTokens === true,
      owner: userId === undefined ? undefined : { userId, clientsPerUser },
      now,
    };
    const permissions = permissionsForStore(client.scopes);
    if (storeId !== undefined && permissions === undefined)
      throw new UsageError('--store: --scope has no scope for a store');
    const made = await transaction(sql, async (tx) => {
      const credentials = await createClient(tx, client);
      if (storeId === undefined || userId === undefined || permissions === undefined) return credentials;
      const { client_id: clientId } = credentials;
      const access = { clientId, userId, storeId, requiresFactor, permissions, now };
      const { scope, ...tokens } = await grantStoreAccess(tx, context, config.oauth, access);
      return { ...credentials, access_token: tokens.access_token, refresh_token: tokens.refresh_token, scope };
    });
    printResult(terminal, made);
  });

const rotate = (terminal: Terminal, id: string, isAtOnce: boolean): Promise<void> =>
  withContext(terminal, async ({ sql, now, config }) => {
    const overlapHours = isAtOnce ? 0 : config.oauth.clientSecretOverlapHours;
    const secret = await rotateSecret(sql, { clientId: id, overlapHours }, operator(now));
    printResult(terminal, { client_id: id, client_secret: secret, older_secret_ends_in_hours: overlapHours });
  });

/** Asks for confirmation of a deletion; throws a `UserError` if it is refused, or without a terminal. */
async function confirm({ ask }: Terminal, question: string): Promise<void> {
  if (ask === undefined) throw new UserError('Nothing was deleted: without a terminal, confirm with --yes');
  const reply = await ask(`${question} [y/N] `);
  if (!/^y(es)?$/i.test(reply.trim())) throw new UserError('Nothing was deleted');
}

const remove = (terminal: Terminal, id: string, isSure: boolean): Promise<void> =>
  withContext(terminal, async (context) => {
    const client = await findClient(context.sql, id);
    if (client === undefined) throw notFound('client');
    if (!isSure) await confirm(terminal, `Delete ${client.name} (${id})? All connections of users to it end.`);
    await removeClient(context.sql, context, id, operator(context.now));
    printResult(terminal, { client_id: id, deleted: true });
  });

function addCreate(command: CliCommand, terminal: Terminal): void {
  command
    .command('create')
    .description('create a client and print its credentials; the secret is shown only once')
    .requiredOption('--name <name>', 'the name that store owners see')
    .option('--redirect-uri <uri...>', 'the redirect URI after authorization; may be repeated')
    .option('--company <name>', 'the vendor of the app')
    .option('--description <text>', 'the purpose of the app')
    .option('--contact <email>', 'the contact address of the app')
    .option('--owner <email>', 'the user who owns the app and can change it on the pages')
    .id('--store <id>', 'print tokens for this store of the owner, too: for a program without a redirect URI')
    .option('--scope <scopes>', 'the scopes that it may ask for, separated by spaces; default: both with full access')
    .option('--pkce', 'PKCE is mandatory; always on for public clients')
    .option('--public', 'a public client, without a secret (PKCE is mandatory)')
    .option('--rotate-refresh-tokens', 'replace refresh tokens at each use; always on for public clients')
    .option('--device-grant', 'may connect devices without a browser: the user enters a code (RFC 8628)')
    .option('--legacy', 'may omit redirect_uri at the token endpoint; needs exactly one')
    .option('--trusted', 'may publish events for any store (client_credentials, scope platform)')
    .examples(
      'halcyon client create --name Mailer --redirect-uri https://mailer.example/callback',
      'halcyon client create --name Desk --public --redirect-uri http://127.0.0.1/callback',
      'halcyon client create --name Reports --redirect-uri https://reports.example/callback --scope "store_read webhooks"',
      'halcyon client create --name Export --owner ada@shop.example --store 4711 --scope store_read',
      'halcyon client create --name Platform --trusted',
    )
    .action((options: Options) => create(terminal, options));
}

const verify = (terminal: Terminal, id: string): Promise<void> =>
  withContext(terminal, async ({ sql, now }) => {
    await verifyClient(sql, id, operator(now));
    printResult(terminal, { client_id: id, verified: true });
  });

export function createClientCommand(terminal: Terminal): CliCommand {
  const command = new CliCommand('client').description('OAuth clients: apps, and the platform itself');
  addCreate(command, terminal);
  const add = (name: string, description: string, example = ''): CliCommand =>
    command
      .command(name)
      .description(description)
      .argument('<client_id>', 'as `client create` printed it, or the address of a metadata document', requireClientId)
      .examples(`halcyon client ${name} 5f0c1d9e8b7a6f5e4d3c2b1a${example}`);
  add('rotate-secret', 'create a new secret, shown only once; older secrets stay valid for a day', ' --now')
    .option('--now', 'end all older secrets at once, for example after a leak')
    .action((id: string, options: { now?: true }) => rotate(terminal, id, options.now === true));
  add('verify', 'mark a client as verified; the consent page then no longer calls it unverified').action((id: string) =>
    verify(terminal, id),
  );
  add('delete', 'delete a client; all its grants end at once', ' --yes')
    .option('--yes', 'do not ask for confirmation')
    .action((id: string, options: { yes?: true }) => remove(terminal, id, options.yes === true));
  addRegistrationToken(command, terminal);
  return command;
}
