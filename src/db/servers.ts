/** The servers that a database address names, as settings of the driver. */
import { userInfo } from 'node:os';
import type { ConnectionOptions } from 'node:tls';
import { Client, defaults, type ClientConfig } from 'pg';
import { DatabaseUrlFault, parseDatabaseUrl, type DatabaseUrl } from '#core/database-url.ts';

export type DatabaseAddress =
  | { kind: 'url'; url: string }
  | { kind: 'socket'; directory: string; user: string; password: string; database: string };

/** An error that an operator can fix; the message is one line with the remedy. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError';
}

/**
 * `servers` are tried in their order. `mustWrite`: a server that only reads is skipped. `parameters`: settings of the session that
 * the url contains.
 */
export type Servers = { servers: readonly ClientConfig[]; mustWrite: boolean; parameters: Record<string, string> };

const PORT = 5432;

/** Makes the user of the process the default, as in libpq: the driver's is the variable USER, which su and services may not set. */
try {
  defaults.user = userInfo().username;
} catch {
  // The user has no name, as in a container.
}

const UNVERIFIED: ConnectionOptions = { rejectUnauthorized: false };
const VERIFIED: ConnectionOptions = {};

/** The `sslmode` of a url: the encryption of each try. As in libpq, only `verify-…` checks the certificate. */
const TLS: Readonly<Record<DatabaseUrl['sslMode'], readonly (ConnectionOptions | false)[]>> = {
  disable: [false],
  allow: [false, UNVERIFIED],
  prefer: [UNVERIFIED, false],
  require: [UNVERIFIED],
  'verify-ca': [VERIFIED],
  'verify-full': [VERIFIED],
};

/** Reads a url as libpq does; the driver itself knows neither several hosts nor `target_session_attrs`. */
function serversOfUrl(address: string): Servers {
  const { hosts, user, password, database, sslMode, target, parameters } = parsed(address);
  // The driver replaces what is missing by the environment: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE.
  const servers = hosts.flatMap((host) =>
    TLS[sslMode].map((ssl): ClientConfig => Object.assign({}, { user, password, database }, host, { ssl })),
  );
  // Halcyon cannot use a server that only reads.
  return { servers, mustWrite: target !== 'any', parameters };
}

function parsed(address: string): DatabaseUrl {
  try {
    return parseDatabaseUrl(address);
  } catch (error) {
    if (error instanceof DatabaseUrlFault) throw new DatabaseError(`The URL of a database ${error.message}`);
    throw error;
  }
}

/** Returns the servers of an address; throws a `DatabaseError` if the url has a parameter that is not possible. */
export function serversAt(address: DatabaseAddress): Servers {
  if (address.kind === 'url') return serversOfUrl(address.url);
  const { directory, user, password, database } = address;
  const server = { host: directory, port: PORT, user, password, database, ssl: false };
  return { servers: [server], mustWrite: false, parameters: {} };
}

/** Returns the hosts and ports of servers; none for a Unix socket. */
export function endpointsOf({ servers }: Servers): { host: string; port: number }[] {
  // The driver completes them from the environment.
  const endpoints = servers.map((server) => new Client(server)).map(({ host, port }) => ({ host, port }));
  return endpoints.filter(({ host }) => !host.startsWith('/'));
}

/** Returns host, port and database of an address, without user and password. */
export function nameOf(address: DatabaseAddress): string {
  const { servers } = serversAt(address);
  const clients = servers.map((server) => new Client(server));
  const hosts = new Set(clients.map(({ host }) => host));
  return `${[...hosts].join(',')}:${clients[0]?.port ?? PORT}/${clients[0]?.database ?? ''}`;
}
