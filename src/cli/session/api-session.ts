/** Calls the API with the login of this terminal, and refreshes an expired access token. */
import { systemClock } from '#core/clock.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import { openCredentials, type Credentials, type Login } from './credentials.ts';
import {
  exchange,
  isTemporary,
  linkOf,
  reasonOf,
  send,
  unreachable,
  type JsonResponse,
  type RequestOptions,
  type Json,
  safeAddress,
  typedAddress,
} from './json-request.ts';
import type { ServerMetadata } from 'openid-client';
import { token } from '#config/env.ts';

// Selects the server, and discovers its endpoints from its home document and its metadata (RFC 8414).

export type ServerOptions = { server?: string };
export const SERVER = [
  '--server <address>',
  'of the API; default: HALCYON_SERVER, or the server of the login',
] as const;

/** The longest time that a login waits for its user. */
export const TIMEOUT_SECONDS_MAX = 3_600;

export type Server = {
  /** The server's own address, the prefix of its links. */
  url: string;
  metadata: ServerMetadata;
};

const DEFAULT = 'http://localhost:8080';

/** Returns the server of the option, of the environment, of the only login, or of `npm start`. */
export function serverOf({ server }: ServerOptions, { env }: Pick<Terminal, 'env'>, known: readonly string[]): string {
  if (server !== undefined) return typedAddress(server, '--server');
  const set = env['HALCYON_SERVER'];
  if (set !== undefined && set !== '') return typedAddress(set, 'HALCYON_SERVER');
  const [only = DEFAULT, ...others] = known;
  if (others.length > 0) throw new UserError(`You are logged in at ${known.join(' and ')}: choose one with --server`);
  return only;
}

/** Returns the version header of the API, whose name an operator can change. */
function versionHeaders({ env }: Terminal): Record<string, string> {
  return {
    [token(env['VERSION_HEADER'] || 'SERVICE-API-VERSION', 'VERSION_HEADER')]: '1',
    Accept: 'application/json',
  };
}

const AUTHORIZE = '/authorize';
const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'revocation_endpoint'] as const;

/**
 * Throws unless the issuer names the API as a protected resource (RFC 9728 §4). Otherwise a malicious server could point to a
 * genuine issuer and receive its token.
 */
function requireProtected(url: string, { issuer, protected_resources: named }: ServerMetadata): void {
  if (Array.isArray(named) && named.includes(url)) return;
  throw new UserError(
    `${issuer} does not issue tokens for ${url}: check --server, and log in only at servers that you trust`,
  );
}

async function discoverAt(server: string, terminal: Terminal): Promise<Server> {
  const home = await exchange(server, { headers: versionHeaders(terminal) });
  if (isTemporary(home.status)) throw unreachable(server, `it answers ${home.status}`);
  const authorize = linkOf(home.json, 'authorize');
  if (home.status !== 200 || authorize?.endsWith(AUTHORIZE) !== true)
    throw new UserError(`The server at ${server} is no Halcyon (${reasonOf(home)}): check --server`);
  const { discoverIssuer } = await import('./session-tokens.ts');
  const issuer = safeAddress(authorize.slice(0, -AUTHORIZE.length), `the authorization server of ${server}`);
  const metadata = await discoverIssuer(issuer);
  const url = safeAddress(linkOf(home.json, 'self') ?? server, `the own address of ${server}`);
  // A server of an older version has no codes for devices.
  const { device_authorization_endpoint: device } = metadata;
  for (const name of [...ENDPOINTS, ...(device === undefined ? [] : (['device_authorization_endpoint'] as const))])
    safeAddress(String(metadata[name]), `${name} of ${server}`);
  requireProtected(url, metadata);
  return { url, metadata };
}

/** Discovers the server. If it names another address as its own, that address is discovered as well and must confirm it. */
export async function discover(server: string, terminal: Terminal): Promise<Server> {
  const first = await discoverAt(server, terminal);
  const found = first.url === server ? first : await discoverAt(first.url, terminal);
  if (found.url === first.url) return found;
  throw new UserError(`${server} refers to ${first.url}, which refers to ${found.url}: use the last one with --server`);
}

// Calls the API.

type ApiRequest = Omit<RequestOptions, 'body'> & { body?: object };

const notLoggedIn = (server: string): UserError =>
  new UserError(`You are not logged in at ${server}: run halcyon login --server ${server}`);

/** Refreshes the login, unless another command has done it already; `rejected` is the access token that was rejected. */
async function renew(credentials: Credentials, server: string, rejected: string): Promise<Login> {
  const { refresh } = await import('./session-tokens.ts');
  let login: Login | undefined;
  await credentials.change(server, async (stored) => {
    login =
      stored === undefined || stored.access_token !== rejected ? stored : await refresh(stored, systemClock.now());
    return login;
  });
  if (login === undefined) throw notLoggedIn(server);
  return login;
}

/** Returns the address of a relation; throws a `UserError` if the document has no such link. */
export function follow(document: Json, rel: string, server: string): string {
  const address = linkOf(document, rel);
  if (address !== undefined) return address;
  throw new UserError(`This server has no ${rel}: ${server} may run an older version than this command`);
}

export async function openApi(options: ServerOptions, terminal: Terminal) {
  const credentials = openCredentials(terminal);
  const server = serverOf(options, terminal, Object.keys(await credentials.read()));
  const { origin } = new URL(server);
  const login = async (): Promise<Login> => {
    const { [server]: stored } = await credentials.read();
    if (stored === undefined) throw notLoggedIn(server);
    return stored;
  };
  const authorized = async <Result extends { status: number }>(
    address: string,
    { body, ...rest }: ApiRequest,
    run: (options: RequestOptions) => Promise<Result>,
  ): Promise<Result> => {
    const target = URL.parse(address);
    if (target === null) throw new UserError(`${server} links to "${address}", which is no address: check --server`);
    // Prevents that a link to another origin receives the token.
    if (target.origin !== origin)
      throw new UserError(
        `${server} links to another server: its BASE_URL is ${target.origin}. Use that address with --server`,
      );
    const withToken = (accessToken: string): RequestOptions => ({
      ...rest,
      headers: {
        ...versionHeaders(terminal),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...rest.headers,
        Authorization: `Bearer ${accessToken}`,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { access_token: first } = await login();
    const response = await run(withToken(first));
    if (response.status !== 401) return response;
    const { access_token: second } = await renew(credentials, server, first);
    return run(withToken(second));
  };
  /** Returns the response with any status. Throws a `UserError` if the server is unreachable or the login has ended. */
  const request = (address: string, apiRequest: ApiRequest = {}): Promise<JsonResponse> =>
    authorized(address, apiRequest, (init) => exchange(address, init));
  /** Returns a document; throws a `UserError` with the server's message, which is unreachable for a temporary failure. */
  const read = async (address: string, apiRequest?: ApiRequest): Promise<Json> => {
    const response = await request(address, apiRequest);
    if (response.status >= 200 && response.status < 300) return response.json;
    if (isTemporary(response.status)) throw unreachable(address, reasonOf(response));
    throw new UserError(reasonOf(response));
  };
  const store = async (): Promise<Json> => read(follow(await read(server), 'store', server));
  return {
    server,
    login,
    request,
    read,
    /** Returns the response with an unread body, for streams; throws like `request`. */
    open: (address: string, apiRequest: ApiRequest = {}): Promise<Response> =>
      authorized(address, apiRequest, (init) => send(address, init)),
    /** Returns the store of the login. */
    store,
    /** Returns the address of its webhooks. */
    webhooks: async (): Promise<string> => follow(await store(), 'webhooks', server),
  };
}
export type Api = Awaited<ReturnType<typeof openApi>>;
