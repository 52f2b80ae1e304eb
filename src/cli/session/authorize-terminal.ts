/** Authorizes this terminal: by a redirect of the browser to a local port, or by a code that is entered in a browser elsewhere. */
import { setTimeout as pause } from 'node:timers/promises';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as client from 'openid-client';
import { systemClock } from '#core/clock.ts';
import { html } from '#hypermedia/markup.ts';
import { shell } from '#hypermedia/shell.ts';
import { EXIT, UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { TIMEOUT_SECONDS_MAX, type Server, type ServerOptions } from './api-session.ts';
import type { Login } from './credentials.ts';
import { clientAt, DENIED, pollDeviceCode, redeemCode, requestDeviceCode } from './session-tokens.ts';

// Receives the redirect of the browser on a free loopback port (RFC 8252 §7.3).

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
export async function openLoopback({ state, issuer }: { state: string; issuer: string }) {
  const { promise: redirected, resolve, reject } = Promise.withResolvers<URL>();
  // Prevents an unhandled rejection before the caller awaits it.
  redirected.catch(() => {});
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
    if (!query.has('code')) {
      const refusal = refusalOf(query);
      await sendPage(response, 200, 'Not logged in', CLOSE);
      return reject(refusal);
    }
    await sendPage(response, 200, 'Return to the terminal', 'The login continues there. You can close this tab.');
    return resolve(new URL(PATH + target.search, redirectUri));
  };
  const server = createServer((request, response) => void handle(request, response).catch(reject));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const redirectUri = `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`;
  return {
    redirectUri,
    /** Resolves with the address that has the authorization code; rejects with a `UserError` if the user denied access. */
    redirected,
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

// Authorizes a terminal without a browser: the user enters a code in a browser elsewhere (RFC 8628).

/** The seconds by which the interval grows after `slow_down` (RFC 8628 §3.5), and while the server does not answer. */
const SLOWER_SECONDS = 5;

/**
 * Throws unless the user would enter the code at the server itself. A malicious server could relay the code and the address of a
 * genuine one, whose user would then grant it access there.
 */
function requireOwnPages(
  { issuer }: Server['metadata'],
  { verification_uri, verification_uri_complete }: client.DeviceAuthorizationResponse,
): void {
  const { origin } = new URL(issuer);
  for (const address of [verification_uri, verification_uri_complete])
    if (address !== undefined && URL.parse(address)?.origin !== origin)
      throw new UserError(
        `${issuer} has the code entered at another address, ${address}: log in only at servers that you trust`,
      );
}

/** Prints the address and the code, and polls until the user has decided, the code has expired, or `stop` aborts. */
async function authorizeByDevice({ metadata }: Server, terminal: Terminal, stop: AbortSignal): Promise<Login> {
  const server = clientAt(metadata, stop);
  const device = await requestDeviceCode(server);
  requireOwnPages(metadata, device);
  const { device_code, user_code, verification_uri, interval = SLOWER_SECONDS } = device;
  terminal.warn(
    `Open this address in a browser, on any device:\n\n  ${verification_uri}\n\nand enter the code: ${user_code}\n`,
  );
  // No login waits longer than the maximum; a timer of more than 24 days would fire at once.
  for (let seconds = Math.min(Math.max(interval, 1), TIMEOUT_SECONDS_MAX); ;) {
    await pause(seconds * 1_000, undefined, { signal: stop });
    const state = await pollDeviceCode(server, device_code, systemClock.now()).catch((error: unknown) => {
      if (error instanceof UserError && error.exitCode === EXIT.unreachable) return 'slower' as const;
      throw error;
    });
    if (typeof state === 'object') return state;
    if (state === 'slower') seconds += SLOWER_SECONDS;
  }
}

export type LoginOptions = ServerOptions & { browser: boolean; device?: true; timeout: number };

/** Waits for the user's decision, a time-out or a stop signal. */
async function waitFor<Result>(decision: Promise<Result>, seconds: number, terminal: Terminal): Promise<Result> {
  const { promise: timeout, reject } = Promise.withResolvers<never>();
  const message = `No response from the browser for ${seconds} s. To try again: halcyon login (--timeout waits longer)`;
  using _timer = setTimeout(() => reject(new UserError(message)), seconds * 1000);
  const stopped = terminal.untilStopSignal().then((signal): never => {
    throw new UserError(`${signal}: you are not logged in`, EXIT.interrupted);
  });
  return await Promise.race([decision, timeout, stopped]);
}

/** Authorizes by RFC 8252 with PKCE: the code that is sent to a local port is useless without the verifier. */
async function authorizeByRedirect(
  { metadata }: Server,
  { opensPage, seconds }: { opensPage: boolean; seconds: number },
  terminal: Terminal,
): Promise<Login> {
  const [state, verifier] = [client.randomState(), client.randomPKCECodeVerifier()];
  const server = clientAt(metadata);
  await using loopback = await openLoopback({ state, issuer: metadata.issuer });
  const { href } = client.buildAuthorizationUrl(server, {
    scope: 'store_full_access',
    redirect_uri: loopback.redirectUri,
    state,
    code_challenge: await client.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  terminal.warn(`Allow it in your browser, at this address:\n\n  ${href}\n`);
  if (opensPage) terminal.openPage?.(href);
  const redirected = await waitFor(loopback.redirected, seconds, terminal);
  return await redeemCode(server, redirected, { verifier, state }, systemClock.now());
}

/** Returns whether the browser of the user is elsewhere, and so cannot reach a local port. */
const isRemote = ({ env, openPage }: Terminal): boolean => Boolean(env['SSH_CONNECTION']) || openPage === undefined;

/** Authorizes with a code for another device if asked to, or if no browser runs here; else by a redirect to this computer. */
export async function authorize(server: Server, options: LoginOptions, terminal: Terminal): Promise<Login> {
  const { timeout: seconds } = options;
  const hasDeviceCodes = server.metadata.device_authorization_endpoint !== undefined;
  if (options.device === true && !hasDeviceCodes)
    throw new UserError(`${server.url} has no codes for devices: it runs an older version. Omit --device`);
  const isDevice = options.device ?? (options.browser && isRemote(terminal));
  if (!isDevice || !hasDeviceCodes)
    return authorizeByRedirect(server, { opensPage: options.browser, seconds }, terminal);
  const ended = new AbortController();
  const decision = authorizeByDevice(server, terminal, ended.signal);
  // Prevents an unhandled rejection by the abort.
  decision.catch(() => {});
  return waitFor(decision, seconds, terminal).finally(() => ended.abort());
}
