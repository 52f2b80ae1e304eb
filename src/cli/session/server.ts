/** Which server, and where everything of it is: found from its home and its metadata (RFC 8414). */
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
} from './exchange.ts';

export type ServerOptions = { server?: string };

export type Server = {
  /** As it calls itself: what its links begin with. */
  url: string;
  issuer: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  revocationEndpoint: string;
};

const DEFAULT = 'http://localhost:8080';

/** Said, or in the environment, or the only one that somebody is logged in at, or the one of `npm start`. */
export const serverOf = (
  { server }: ServerOptions,
  { env }: Pick<Terminal, 'env'>,
  known: readonly string[],
): string => {
  if (server !== undefined) return typedAddress(server, '--server');
  const set = env['HALCYON_SERVER'];
  if (set !== undefined && set !== '') return typedAddress(set, 'HALCYON_SERVER');
  const [only = DEFAULT, ...others] = known;
  if (others.length > 0)
    throw new UserError(`You are logged in at ${known.join(' and ')}: say which one is meant with --server`);
  return only;
};

/** The header of the API's version, whose name an operator can change. */
export const versionHeaders = ({ env }: Terminal): Record<string, string> => ({
  [token(env, 'VERSION_HEADER', 'SERVICE-API-VERSION')]: '1',
  Accept: 'application/json',
});

const told = (address: string, answered: JsonResponse): JsonResponse => {
  if (isTemporary(answered.status)) throw unreachable(address, `it answers ${answered.status}`);
  return answered;
};

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

/** The issuer's metadata stand before its own path (RFC 8414 §3.1), and have to name it (§3.3). */
const metadataOf = async (issuer: string): Promise<JsonResponse['json']> => {
  const { origin, pathname } = new URL(issuer);
  const address = origin + WELL_KNOWN + pathname.replace(/\/$/, '');
  const { status, json } = told(address, await exchange(address));
  if (status === 200 && json['issuer'] === issuer) return json;
  throw new UserError(`${address} tells of another authorization server than ${issuer}: its operator has to mend that`);
};

const AUTHORIZE = '/authorize';

/**
 * Who gives the tokens has to name the API that they are shown to (RFC 9728 §4): whoever talks somebody into logging in at a server
 * of theirs could else lead to an issuer that is genuine, and be shown the token that it gave.
 */
const requireNamed = (url: string, { issuer, protected_resources: named }: JsonResponse['json']): void => {
  if (Array.isArray(named) && named.includes(url)) return;
  throw new UserError(
    `${String(issuer)} signs nobody in for ${url}: check --server, and log in nowhere that you do not know`,
  );
};

const discoverAt = async (server: string, terminal: Terminal): Promise<Server> => {
  const home = told(server, await exchange(server, { headers: versionHeaders(terminal) }));
  const authorize = linkOf(home.json, 'authorize');
  if (home.status !== 200 || authorize?.endsWith(AUTHORIZE) !== true)
    throw new UserError(`What answers at ${server} is no Halcyon (${reasonOf(home)}): check --server`);
  const metadata = await metadataOf(authorize.slice(0, -AUTHORIZE.length));
  const endpoint = (name: string): string => safeAddress(String(metadata[name]), `${name} of ${server}`);
  const url = safeAddress(linkOf(home.json, 'self') ?? server, `the address that ${server} has for itself`);
  requireNamed(url, metadata);
  return {
    url,
    issuer: String(metadata['issuer']),
    authorizationEndpoint: endpoint('authorization_endpoint'),
    tokenEndpoint: endpoint('token_endpoint'),
    revocationEndpoint: endpoint('revocation_endpoint'),
  };
};

/** Who says that they are another is not believed: that one is asked who signs people in for it. */
export const discover = async (server: string, terminal: Terminal): Promise<Server> => {
  const first = await discoverAt(server, terminal);
  const found = first.url === server ? first : await discoverAt(first.url, terminal);
  if (found.url === first.url) return found;
  throw new UserError(
    `${server} leads to ${first.url}, and from there to ${found.url}: use the last one with --server`,
  );
};
