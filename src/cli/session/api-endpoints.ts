/** Selects the server, and discovers its endpoints from its home document and its metadata (RFC 8414). */
import type { ServerMetadata } from 'openid-client';
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
  const home = requireAvailable(server, await exchange(server, { headers: versionHeaders(terminal) }));
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
