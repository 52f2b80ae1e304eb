/** `halcyon login`, `logout` and `whoami`: a user authorizes this terminal for one of their stores in the browser. */
import { printResult, CliCommand } from './command.ts';
import { UserError } from './explain.ts';
import { openApi, discover, serverOf, SERVER, TIMEOUT_SECONDS_MAX, type ServerOptions } from './session/api-session.ts';
import type { LoginOptions } from './session/authorize-terminal.ts';
import { openCredentials } from './session/credentials.ts';
import type { Terminal } from './terminal.ts';

type Identity = Awaited<ReturnType<typeof readIdentity>>;

async function readIdentity(options: ServerOptions, terminal: Terminal) {
  const api = await openApi(options, terminal);
  const { id, name, domain } = await api.store();
  if (typeof id !== 'number' || typeof name !== 'string' || typeof domain !== 'string')
    throw new UserError(`${api.server} sent no store of Halcyon: check --server`);
  const { scope, expires } = await api.login();
  return { server: api.server, store: { id, name, domain }, scope, access_until: expires };
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
  const sentence = `You are logged in at ${identity.server}, to ${nameOf(identity)}. Next: halcyon listen`;
  printResult(terminal, identity, [sentence]);
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
  const sentence = wasLoggedIn ? `You are logged out of ${server}.` : `You were not logged in at ${server}.`;
  printResult(terminal, { server, logged_out: wasLoggedIn }, [sentence]);
}

const TIMEOUT = { min: 1, max: TIMEOUT_SECONDS_MAX, unit: ' of seconds' };

export function createLoginCommands(terminal: Terminal): CliCommand[] {
  return [
    new CliCommand('login')
      .description('grant this terminal access to one of your stores, in the browser')
      .option(...SERVER)
      .option('--no-browser', 'print the address without opening it; the browser must run on this computer')
      .option('--device', 'show a code to enter in a browser on any device; the default over SSH and without a display')
      .number('--timeout <seconds>', 'how long to wait for the browser', TIMEOUT, 300)
      .examples(
        'halcyon login',
        'halcyon login --server https://api.example.com --no-browser',
        'halcyon login --device',
      )
      .action((options: LoginOptions) => login(options, terminal)),
    new CliCommand('whoami')
      .description('show the current login and its store')
      .option(...SERVER)
      .examples('halcyon whoami')
      .action(async (options: ServerOptions) => {
        const identity = await readIdentity(options, terminal);
        const sentence = `${identity.server}: ${nameOf(identity)}. The login renews itself; halcyon logout ends it`;
        printResult(terminal, identity, [sentence]);
      }),
    new CliCommand('logout')
      .description('revoke the access of this terminal and delete its credentials')
      .option(...SERVER)
      .examples('halcyon logout')
      .action((options: ServerOptions) => logout(options, terminal)),
  ];
}
