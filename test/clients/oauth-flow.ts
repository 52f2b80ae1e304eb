/**
 * The flow of each third-party library: it sends a person to /authorize, gets tokens, calls the API, refreshes,
 * calls again, revokes, and is rejected.
 */
import assert from 'node:assert/strict';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { PASSWORD, startAuthorizationServer } from '../security/oauth-server.ts';
import { freePort } from '../setup/free-port.ts';

/** Client authentication: a secret in the header, a secret in the body, or none. */
export type Method = 'basic' | 'post' | 'none';

export type App = {
  issuer: string;
  clientId: string;
  /** Empty if the client is public. */
  clientSecret: string;
  method: Method;
  redirectUri: string;
  /** Sends the person to the address, where they allow it; returns the address that they come back to. */
  visit: (address: string | URL) => Promise<URL>;
  /** The address of the store that the app gets access to. */
  store: string;
};

/** The statuses of the three calls, and the refresh tokens before and after the refresh. */
export type Walked = { statuses: number[]; refreshTokens: (string | undefined)[] };

export type Walk = (app: App) => Promise<Walked>;

/** The redirect address of the clients. Without a query, which openid-client would leave out of its request to /token. */
const REDIRECT = 'https://app.example.com/callback';
const details = (redirectUris: string[]) => ({ name: 'Walker', redirectUris, trusted: false, now: new Date() });
const API = { 'SERVICE-API-VERSION': '1' };

/** A call with a bearer token, for libraries that leave calls to the app. */
export function call(address: string, accessToken: string): Promise<Response> {
  return fetch(address, { headers: { ...API, Authorization: `Bearer ${accessToken}` } });
}

/** The status of a response, or of the error that a library makes of one. */
export async function statusOf(answer: Promise<Response>): Promise<number> {
  try {
    return (await answer).status;
  } catch (error) {
    if (error instanceof Error && 'status' in error) return Number(error.status);
    throw error;
  }
}

/** A server whose addresses resolve, with settings of the operator, and the apps that use it: each a client of its own. */
export async function openScene(env: Readonly<Record<string, string>> = {}) {
  const server = await startAuthorizationServer(env, { isResolvable: true });
  const { origin: issuer, browser, sql, alpha } = server;
  const visit = async (address: string | URL): Promise<URL> => {
    const { location, text } = await browser.consent(new URL(address).searchParams);
    if (location === null) throw new Error(`The person was not sent back: ${text}`);
    return new URL(location);
  };
  const common = { issuer, visit, store: `${issuer}/stores/${alpha}` };
  const confidential = async (method: Method, redirectUri = REDIRECT): Promise<App> => {
    const { client_id: clientId, client_secret: clientSecret } = await createClient(sql, details([redirectUri]));
    return { ...common, clientId, clientSecret, method, redirectUri };
  };
  /** An app on a person's computer registers no port, and uses the one that it gets (RFC 8252 §7.3). */
  const onComputer = async (port?: number): Promise<App> => {
    const { client_id: clientId } = await createClient(sql, {
      ...details(['http://127.0.0.1/callback']),
      isPublic: true,
    });
    const redirectUri = `http://127.0.0.1:${port ?? (await freePort())}/callback`;
    return { ...common, clientId, clientSecret: '', method: 'none', redirectUri };
  };
  const person = { email: server.ada, password: PASSWORD };
  return { server, person, confidential, onComputer };
}

export const kinds: Readonly<Record<Method, string>> = {
  basic: 'with its secret in the header',
  post: 'with its secret in the body',
  none: 'as a public client on a port of its own',
};

/** The expected result: accepted twice and then rejected, with the refresh token of its kind of client. */
export function assertWalked({ statuses, refreshTokens }: Walked, method: Method): void {
  assert.deepEqual(statuses, [200, 200, 401]);
  const [first = '', second = ''] = refreshTokens;
  for (const token of [first, second]) assert.match(token, /^hal_rt_[A-Za-z0-9_-]{43}$/);
  assert.equal(second !== first, method === 'none', 'a public client gets a new refresh token, others keep theirs');
}
