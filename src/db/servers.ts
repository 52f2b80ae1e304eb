/** The servers that a database address names, as settings of the driver. */
import { userInfo } from 'node:os';
import type { ConnectionOptions } from 'node:tls';
import { Client, defaults, type ClientConfig } from 'pg';

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
const TLS: Readonly<Record<string, readonly (ConnectionOptions | false)[]>> = {
  disable: [false],
  allow: [false, UNVERIFIED],
  prefer: [UNVERIFIED, false],
  require: [UNVERIFIED],
  'verify-ca': [VERIFIED],
  'verify-full': [VERIFIED],
};

/** Whether a server must accept writes, by the `target_session_attrs` of a url. Halcyon cannot use one that only reads. */
const TARGETS: Readonly<Record<string, boolean>> = { any: false, primary: true, 'read-write': true };

/** Returns the entry of a url parameter; throws a `DatabaseError` for a value that the table does not have. */
function chosen<T>(table: Readonly<Record<string, T>>, name: string, value: string): T {
  const entry = Object.hasOwn(table, value) ? table[value] : undefined;
  if (entry !== undefined) return entry;
  throw new DatabaseError(
    `${name}=${value} in DATABASE_URL is not possible: use one of ${Object.keys(table).join(', ')}`,
  );
}

/** Takes a parameter out of the query of a url. */
function take(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name);
  query.delete(name);
  return value ?? undefined;
}

/** Reads a url as libpq does; the driver itself knows neither several hosts nor `target_session_attrs`. */
function serversOfUrl(address: string): Servers {
  const { hostname, port, username, password, pathname, searchParams } = new URL(address);
  const query = new URLSearchParams(searchParams);
  const hosts = decodeURIComponent(take(query, 'host') ?? hostname).split(',');
  const certificate = take(query, 'sslrootcert');
  const sslmode = take(query, 'sslmode') ?? (certificate === 'system' ? 'verify-full' : 'disable');
  const mustWrite = chosen(TARGETS, 'target_session_attrs', take(query, 'target_session_attrs') ?? 'any');
  // Fixed, see CONNECT_TIMEOUT_MS.
  take(query, 'connect_timeout');
  // The driver replaces what is missing by the environment: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE.
  const common: ClientConfig = {
    port: port === '' ? undefined : Number(port),
    user: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
    database: decodeURIComponent(pathname.slice(1)) || undefined,
  };
  const tries = chosen(TLS, 'sslmode', sslmode);
  const servers = hosts.flatMap((name) => {
    const server = { ...common, host: name.replace(/^\[|\]$/g, '') || undefined };
    return tries.map((ssl): ClientConfig => Object.assign({}, server, { ssl }));
  });
  return { servers, mustWrite, parameters: Object.fromEntries(query) };
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
