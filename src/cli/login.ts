/** `halcyon login`, `logout` and `whoami`: a user authorizes this terminal for one of their stores in the browser. */
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Command } from 'commander';
import { systemClock } from '#core/clock.ts';
import { COMMAND_LINE_CLIENT } from '#identity/oauth/clients/clients.ts';
import { withParameters } from '#identity/oauth/redirect-uri.ts';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { printResult, examples } from './command.ts';
import { EXIT, UsageError, UserError } from './explain.ts';
import { openApi } from './session/api-session.ts';
import { openCredentials, type Login } from './session/credentials.ts';
import { discover, serverOf, type Server, type ServerOptions } from './session/api-endpoints.ts';
import {
  redeemCode,
  revoke,
  type Endpoints,
  pollDeviceCode,
  requestDeviceCode,
  type DeviceCode,
  DENIED,
} from './session/session-tokens.ts';
import type { Terminal } from './terminal.ts';

// Receives the redirect of the browser on a free loopback port (RFC 8252 §7.3).

type Loopback = {
  redirectUri: string;
  /** Resolves with the authorization code; rejects with a `UserError` if the user denied access. */
  code: Promise<string>;
  close: () => Promise<void>;
};

const PATH = '/callback';

/** Sends a page; resolves when it is sent, or when the browser disconnects. */
function sendPage(response: ServerResponse, status: number, title: string, text: string): Promise<unknown> {
  const main = html`<div class="card">
    <h1>${title}</h1>
    <p>${text}</p>
  </div>`;
  response.writeHead(status, {
    'Content-Type': 'text/html; charset=utf-8',
    // The address contains the code.
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
    Connection: 'close',
  });
  response.end(shell({ title, main }));
  return once(response, 'close');
}

const CLOSE = 'Go back to the terminal. You can close this tab.';

const refusalOf = (query: URLSearchParams): UserError =>
  new UserError(
    query.get('error') === 'access_denied'
      ? DENIED
      : `You are not logged in: ${query.get('error_description') ?? query.get('error') ?? 'the server sent no code'}`,
  );

/** Starts the server. Rejects redirects without the `state` of this login or of another issuer (RFC 9207). */
export async function openLoopback({ state, issuer }: { state: string; issuer: string }): Promise<Loopback> {
  const { promise: code, resolve, reject } = Promise.withResolvers<string>();
  // Prevents an unhandled rejection before the caller awaits the code.
  code.catch(() => {});
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<unknown> => {
    // An invalid address must not end the login.
    const target = URL.parse(request.url ?? '/', 'http://localhost') ?? new URL('http://localhost');
    const { pathname, searchParams: query } = target;
    if (request.method !== 'GET' || pathname !== PATH) return sendPage(response, 404, 'Page not found', CLOSE);
    if (query.get('state') !== state || query.get('iss') !== issuer)
      return sendPage(
        response,
        400,
        'Another login',
        'This page belongs to another login: open the address in the terminal.',
      );
    const received = query.get('code');
    if (received === null) {
      const refusal = refusalOf(query);
      await sendPage(response, 200, 'Not logged in', CLOSE);
      return reject(refusal);
    }
    await sendPage(response, 200, 'Return to the terminal', 'The login continues there. You can close this tab.');
    return resolve(received);
  };
  const server = createServer((request, response) => void handle(request, response).catch(reject));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    redirectUri: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`,
    code,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

// Authorizes a terminal without a browser: the user enters a code in a browser elsewhere (RFC 8628).

/** The seconds by which the interval grows after `slow_down` (RFC 8628 §3.5), and while the server does not answer. */
const SLOWER_SECONDS = 5;

/** Returns the state of the code; a server that does not answer is asked again later. */
async function poll(endpoints: Endpoints, code: DeviceCode, signal: AbortSignal): ReturnType<typeof pollDeviceCode> {
  try {
    return await pollDeviceCode(endpoints, code, { now: systemClock.now(), signal });
  } catch (error) {
    if (error instanceof UserError && error.exitCode === EXIT.unreachable) return 'slower';
    throw error;
  }
}

/** Prints the address and the code, and polls until the user has decided, the code has expired, or `signal` aborts. */
async function authorizeByDevice(
  deviceEndpoint: string,
  endpoints: Endpoints,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<Login> {
  const code = await requestDeviceCode(deviceEndpoint);
  const { verificationUri, userCode } = code;
  terminal.warn(
    `Open this address in a browser, on any device:\n\n  ${verificationUri}\n\nand enter the code: ${userCode}\n`,
  );
  for (let seconds = code.intervalSeconds; ;) {
    await pause(seconds * 1_000, undefined, { signal });
    const state = await poll(endpoints, code, signal);
    if (typeof state === 'object') return state;
    if (state === 'slower') seconds += SLOWER_SECONDS;
  }
}

type LoginOptions = ServerOptions & { browser: boolean; device?: true; timeout: string };

const TIMEOUT_SECONDS_MAX = 3_600;
/** RFC 7636 §4.1: at least 43 characters. */
const VERIFIER_BYTES = 32;

function secondsOf(text: string): number {
  const seconds = Number(text);
  if (Number.isSafeInteger(seconds) && seconds >= 1 && seconds <= TIMEOUT_SECONDS_MAX) return seconds;
  throw new UsageError(`--timeout must be a whole number of seconds from 1 to ${TIMEOUT_SECONDS_MAX}`);
}

const random = (): string => randomBytes(VERIFIER_BYTES).toString('base64url');

/** Waits for the user's decision, a time-out or a stop signal. */
async function waitFor<Result>(decision: Promise<Result>, seconds: number, terminal: Terminal): Promise<Result> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const message = `No response from the browser for ${seconds} s. To try again: halcyon login (--timeout waits longer)`;
    reject(new UserError(message));
  }, seconds * 1000);
  const stopped = terminal.untilStopSignal().then((signal): never => {
    throw new UserError(`${signal}: you are not logged in`, EXIT.interrupted);
  });
  try {
    return await Promise.race([decision, timeout, stopped]);
  } finally {
    clearTimeout(timer);
  }
}

const endpointsOf = ({ issuer, tokenEndpoint, revocationEndpoint }: Server): Endpoints => ({
  issuer,
  token_endpoint: tokenEndpoint,
  revocation_endpoint: revocationEndpoint,
});

/** Authorizes by RFC 8252 with PKCE: the code that is sent to a local port is useless without the verifier. */
async function authorizeByRedirect(server: Server, options: LoginOptions, terminal: Terminal): Promise<Login> {
  const [state, verifier] = [random(), random()];
  const { issuer } = server;
  const loopback = await openLoopback({ state, issuer });
  try {
    const address = withParameters(server.authorizationEndpoint, {
      response_type: 'code',
      client_id: COMMAND_LINE_CLIENT,
      scope: 'store_full_access',
      redirect_uri: loopback.redirectUri,
      state,
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    });
    terminal.warn(`Allow it in your browser, at this address:\n\n  ${address}\n`);
    if (options.browser) terminal.openPage?.(address);
    const code = await waitFor(loopback.code, secondsOf(options.timeout), terminal);
    const proof = { code, code_verifier: verifier, redirect_uri: loopback.redirectUri };
    return await redeemCode(endpointsOf(server), proof, systemClock.now());
  } finally {
    await loopback.close();
  }
}

/** Returns whether the browser of the user is elsewhere, and so cannot reach a local port. */
const isRemote = ({ env, openPage }: Terminal): boolean => Boolean(env['SSH_CONNECTION']) || openPage === undefined;

/** Authorizes with a code for another device if asked to, or if no browser runs here; else by a redirect to this computer. */
async function authorize(server: Server, options: LoginOptions, terminal: Terminal): Promise<Login> {
  const seconds = secondsOf(options.timeout);
  const { deviceEndpoint } = server;
  if (options.device === true && deviceEndpoint === undefined)
    throw new UserError(`${server.url} has no codes for devices: it runs an older version. Omit --device`);
  const isDevice = options.device ?? (options.browser && isRemote(terminal));
  if (!isDevice || deviceEndpoint === undefined) return authorizeByRedirect(server, options, terminal);
  const ended = new AbortController();
  const decision = authorizeByDevice(deviceEndpoint, endpointsOf(server), terminal, ended.signal);
  // Prevents an unhandled rejection by the abort.
  decision.catch(() => {});
  return waitFor(decision, seconds, terminal).finally(() => ended.abort());
}

type Identity = {
  server: string;
  store: { id: unknown; name: unknown; domain: unknown };
  scope: string;
  access_until: string;
};

async function readIdentity(options: ServerOptions, terminal: Terminal): Promise<Identity> {
  const api = await openApi(options, terminal);
  const { id, name, domain } = await api.store();
  const { scope, expires } = await api.login();
  return { server: api.server, store: { id, name, domain }, scope, access_until: expires };
}

function printIdentity(terminal: Terminal, identity: Identity, sentence: string): void {
  if (terminal.isJson === true) return printResult(terminal, identity);
  return terminal.print(sentence);
}

const nameOf = ({ store }: Identity): string =>
  `${String(store.name)} (store ${String(store.id)}, ${String(store.domain)})`;

async function login(options: LoginOptions, terminal: Terminal): Promise<void> {
  const credentials = openCredentials(terminal);
  const server = await discover(serverOf(options, terminal, Object.keys(await credentials.read())), terminal);
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
