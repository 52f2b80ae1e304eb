/** `halcyon login`, `logout` and `whoami`: a user authorizes this terminal for one of their stores in the browser. */
import { Command } from 'commander';
import { printResult, examples } from './command.ts';
import { UserError } from './explain.ts';
import { openApi, discover, serverOf, type ServerOptions } from './session/api-session.ts';
import type { LoginOptions } from './session/authorize-terminal.ts';
import { openCredentials } from './session/credentials.ts';
import type { Terminal } from './terminal.ts';

type Identity = {
  server: string;
  store: { id: number; name: string; domain: string };
  scope: string;
  access_until: string;
};

async function readIdentity(options: ServerOptions, terminal: Terminal): Promise<Identity> {
  const api = await openApi(options, terminal);
  const { id, name, domain } = await api.store();
  if (typeof id !== 'number' || typeof name !== 'string' || typeof domain !== 'string')
    throw new UserError(`${api.server} sent no store of Halcyon: check --server`);
  const { scope, expires } = await api.login();
  return { server: api.server, store: { id, name, domain }, scope, access_until: expires };
}

function printIdentity(terminal: Terminal, identity: Identity, sentence: string): void {
  if (terminal.isJson === true) return printResult(terminal, identity);
  return terminal.print(sentence);
}

const nameOf = ({ store: { id, name, domain } }: Identity): string => `${name} (store ${id}, ${domain})`;

async function login(options: LoginOptions, terminal: Terminal): Promise<void> {
  const credentials = openCredentials(terminal);
  const server = await discover(serverOf(options, terminal, Object.keys(await credentials.read())), terminal);
  // The library of these requests is loaded only by commands that need it.
  const { authorize } = await import('./session/authorize-terminal.ts');
  const { revoke } = await import('./session/session-tokens.ts');
  const created = await authorize(server, options, terminal);
  await credentials.change(server.url, async (previous) => {
    // A failure to revoke the replaced login does not affect the new one.
    if (previous !== undefined) await revoke(previous).catch(() => {});
    return created;
  });
  const identity = await readIdentity({ server: server.url }, terminal);
  printIdentity(
    terminal,
    identity,
    `You are logged in at ${identity.server}, to ${nameOf(identity)}. Next: halcyon listen`,
  );
}

async function logout(options: ServerOptions, terminal: Terminal): Promise<void> {
  const credentials = openCredentials(terminal);
  const server = serverOf(options, terminal, Object.keys(await credentials.read()));
  const { revoke } = await import('./session/session-tokens.ts');
  let wasLoggedIn = false;
  await credentials.change(server, async (stored) => {
    wasLoggedIn = stored !== undefined;
    if (stored !== undefined) await revoke(stored);
    return undefined;
  });
  if (terminal.isJson === true) return printResult(terminal, { server, logged_out: wasLoggedIn });
  return terminal.print(wasLoggedIn ? `You are logged out of ${server}.` : `You were not logged in at ${server}.`);
}

const SERVER = ['--server <address>', 'of the API; default: HALCYON_SERVER, or the server of the login'] as const;

export function createLoginCommands(terminal: Terminal): Command[] {
  return [
    new Command('login')
      .description('grant this terminal access to one of your stores, in the browser')
      .option(...SERVER)
      .option('--no-browser', 'print the address without opening it; the browser must run on this computer')
      .option('--device', 'show a code to enter in a browser on any device; the default over SSH and without a display')
      .option('--timeout <seconds>', 'how long to wait for the browser', '300')
      .addHelpText(
        'after',
        examples(
          'halcyon login',
          'halcyon login --server https://api.example.com --no-browser',
          'halcyon login --device',
        ),
      )
      .action((options: LoginOptions) => login(options, terminal)),
    new Command('whoami')
      .description('show the current login and its store')
      .option(...SERVER)
      .addHelpText('after', examples('halcyon whoami'))
      .action(async (options: ServerOptions) => {
        const identity = await readIdentity(options, terminal);
        printIdentity(
          terminal,
          identity,
          `${identity.server}: ${nameOf(identity)}. The login renews itself; halcyon logout ends it`,
        );
      }),
    new Command('logout')
      .description('revoke the access of this terminal and delete its credentials')
      .option(...SERVER)
      .addHelpText('after', examples('halcyon logout'))
      .action((options: ServerOptions) => logout(options, terminal)),
  ];
}
