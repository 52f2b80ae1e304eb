/** Selects the server, and discovers its endpoints from its home document and its metadata (RFC 8414). */
import { token } from '#config/env.ts';
import { UserError } from '../explain.ts';
import type { Terminal } from '../terminal.ts';
import {
  exchange,
  linkOf,
  reasonOf,
  safeAddress,
  typedAddress,
  unreachable,
  isTemporary,
  type JsonResponse,
} from './json-request.ts';

export type ServerOptions = { server?: string };

export type Server = {
  /** The server's own address, the prefix of its links. */
  url: string;
  issuer: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  revocationEndpoint: string;
  /** Undefined for a server of an older version. */
  deviceEndpoint: string | undefined;
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
export function versionHeaders({ env }: Terminal): Record<string, string> {
  return {
    [token(env, 'VERSION_HEADER', 'SERVICE-API-VERSION')]: '1',
    Accept: 'application/json',
  };
}

function requireAvailable(address: string, response: JsonResponse): JsonResponse {
  if (isTemporary(response.status)) throw unreachable(address, `it answers ${response.status}`);
  return response;
}

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

/** Reads the issuer's metadata, whose path precedes the issuer's path (RFC 8414 §3.1) and which must name the issuer (§3.3). */
async function metadataOf(issuer: string): Promise<JsonResponse['json']> {
  const { origin, pathname } = new URL(issuer);
  const address = origin + WELL_KNOWN + pathname.replace(/\/$/, '');
  const { status, json } = requireAvailable(address, await exchange(address));
  if (status === 200 && json['issuer'] === issuer) return json;
  throw new UserError(`The metadata at ${address} are of another issuer than ${issuer}: its operator has to fix that`);
}

const AUTHORIZE = '/authorize';

/**
 * Throws unless the issuer names the API as a protected resource (RFC 9728 §4). Otherwise a malicious server could point to a
 * genuine issuer and receive its token.
 */
function requireProtected(url: string, { issuer, protected_resources: named }: JsonResponse['json']): void {
  if (Array.isArray(named) && named.includes(url)) return;
  throw new UserError(
    `${String(issuer)} does not issue tokens for ${url}: check --server, and log in only at servers that you trust`,
  );
}

async function discoverAt(server: string, terminal: Terminal): Promise<Server> {
  const home = requireAvailable(server, await exchange(server, { headers: versionHeaders(terminal) }));
  const authorize = linkOf(home.json, 'authorize');
  if (home.status !== 200 || authorize?.endsWith(AUTHORIZE) !== true)
    throw new UserError(`The server at ${server} is no Halcyon (${reasonOf(home)}): check --server`);
  const metadata = await metadataOf(authorize.slice(0, -AUTHORIZE.length));
  const endpoint = (name: string): string => safeAddress(String(metadata[name]), `${name} of ${server}`);
  const url = safeAddress(linkOf(home.json, 'self') ?? server, `the own address of ${server}`);
  requireProtected(url, metadata);
  return {
    url,
    issuer: String(metadata['issuer']),
    authorizationEndpoint: endpoint('authorization_endpoint'),
    tokenEndpoint: endpoint('token_endpoint'),
    revocationEndpoint: endpoint('revocation_endpoint'),
    deviceEndpoint:
      metadata['device_authorization_endpoint'] === undefined ? undefined : endpoint('device_authorization_endpoint'),
  };
}

/** Discovers the server. If it names another address as its own, that address is discovered as well and must confirm it. */
export async function discover(server: string, terminal: Terminal): Promise<Server> {
  const first = await discoverAt(server, terminal);
  const found = first.url === server ? first : await discoverAt(first.url, terminal);
  if (found.url === first.url) return found;
  throw new UserError(`${server} refers to ${first.url}, which refers to ${found.url}: use the last one with --server`);
}
