/** `halcyon login`, `logout` and `whoami`: a person lets this terminal into a store of theirs, in their browser. */
import { createHash, randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { systemClock } from '#core/clock.ts';
import { COMMAND_LINE_CLIENT } from '#identity/oauth/clients/command-line.ts';
import { withParameters } from '#identity/oauth/redirect-uri.ts';
import { printResult, examples } from '../command.ts';
import { EXIT, UsageError, UserError } from '../explain.ts';
import { openApi } from '../session/api.ts';
import { openCredentials, type Login } from '../session/credentials.ts';
import { discover, serverOf, type Server, type ServerOptions } from '../session/server.ts';
import { redeemCode, revoke } from '../session/tokens.ts';
import type { Terminal } from '../terminal.ts';
import { openLoopback } from './loopback.ts';

type LoginOptions = ServerOptions & { browser: boolean; timeout: string };

const TIMEOUT_SECONDS_MAX = 3_600;
/** RFC 7636 §4.1: 43 characters at least. */
const VERIFIER_BYTES = 32;

const secondsOf = (text: string): number => {
  const seconds = Number(text);
  if (Number.isSafeInteger(seconds) && seconds >= 1 && seconds <= TIMEOUT_SECONDS_MAX) return seconds;
  throw new UsageError(`--timeout must be a whole number of seconds from 1 to ${TIMEOUT_SECONDS_MAX}`);
};

const random = (): string => randomBytes(VERIFIER_BYTES).toString('base64url');

/** The first of what may happen: the browser comes back, nobody answers, ctrl-C. */
const within = async (code: Promise<string>, seconds: number, terminal: Terminal): Promise<string> => {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const message = `Nobody has answered in the browser for ${seconds} s. To try again: halcyon login (--timeout waits longer)`;
    reject(new UserError(message));
  }, seconds * 1000);
  const told = terminal.untilStopSignal().then((signal): never => {
    throw new UserError(`${signal}: you are not logged in`, EXIT.interrupted);
  });
  try {
    return await Promise.race([code, late, told]);
  } finally {
    clearTimeout(timer);
  }
};

/** RFC 8252 with PKCE: what comes back to a port of this computer is worth nothing to whoever has not the verifier. */
const authorize = async (server: Server, options: LoginOptions, terminal: Terminal): Promise<Login> => {
  const seconds = secondsOf(options.timeout);
  const [state, verifier] = [random(), random()];
  const { issuer, tokenEndpoint, revocationEndpoint } = server;
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
    const code = await within(loopback.code, seconds, terminal);
    const place = { issuer, token_endpoint: tokenEndpoint, revocation_endpoint: revocationEndpoint };
    const proof = { code, code_verifier: verifier, redirect_uri: loopback.redirectUri };
    return await redeemCode(place, proof, systemClock.now());
  } finally {
    await loopback.close();
  }
};

type Who = {
  server: string;
  store: { id: unknown; name: unknown; domain: unknown };
  scope: string;
  access_until: string;
};

const whoIs = async (options: ServerOptions, terminal: Terminal): Promise<Who> => {
  const api = await openApi(options, terminal);
  const { id, name, domain } = await api.store();
  const { scope, expires } = await api.login();
  return { server: api.server, store: { id, name, domain }, scope, access_until: expires };
};

const sayWho = (terminal: Terminal, who: Who, sentence: string): void => {
  if (terminal.isJson === true) return printResult(terminal, who);
  return terminal.print(sentence);
};

const nameOf = ({ store }: Who): string => `${String(store.name)} (store ${String(store.id)}, ${String(store.domain)})`;

const login = async (options: LoginOptions, terminal: Terminal): Promise<void> => {
  const credentials = openCredentials(terminal);
  const server = await discover(serverOf(options, terminal, Object.keys(await credentials.read())), terminal);
  const made = await authorize(server, options, terminal);
  await credentials.change(server.url, async (before) => {
    // Replaced is not ended; a server that is away for it ends nothing of what was made now.
    if (before !== undefined) await revoke(before).catch(() => {});
    return made;
  });
  const who = await whoIs({ server: server.url }, terminal);
  sayWho(terminal, who, `You are logged in at ${who.server}, to ${nameOf(who)}. Next: halcyon listen`);
};

const logout = async (options: ServerOptions, terminal: Terminal): Promise<void> => {
  const credentials = openCredentials(terminal);
  const server = serverOf(options, terminal, Object.keys(await credentials.read()));
  let wasIn = false;
  await credentials.change(server, async (kept) => {
    wasIn = kept !== undefined;
    if (kept !== undefined) await revoke(kept);
    return undefined;
  });
  if (terminal.isJson === true) return printResult(terminal, { server, logged_out: wasIn });
  return terminal.print(wasIn ? `You are logged out of ${server}.` : `You were not logged in at ${server}.`);
};

const SERVER = ['--server <address>', 'of the API; else HALCYON_SERVER, else where you are logged in'] as const;

export const createLoginCommands = (terminal: Terminal): Command[] => [
  new Command('login')
    .description('let this terminal into a store of yours, in the browser')
    .option(...SERVER)
    .option('--no-browser', 'print the address and open nothing')
    .option('--timeout <seconds>', 'how long the browser is waited for', '300')
    .addHelpText('after', examples('halcyon login', 'halcyon login --server https://api.example.com --no-browser'))
    .action((options: LoginOptions) => login(options, terminal)),
  new Command('whoami')
    .description('say where you are logged in, and to which store')
    .option(...SERVER)
    .addHelpText('after', examples('halcyon whoami'))
    .action(async (options: ServerOptions) => {
      const who = await whoIs(options, terminal);
      sayWho(terminal, who, `${who.server}: ${nameOf(who)}. The login renews itself; halcyon logout ends it`);
    }),
  new Command('logout')
    .description('end what the terminal was allowed, and forget it')
    .option(...SERVER)
    .addHelpText('after', examples('halcyon logout'))
    .action((options: ServerOptions) => logout(options, terminal)),
];
