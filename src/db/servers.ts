/** The servers that a database address names, as settings of the driver, and the settings of each session. */
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

/**
 * Settings of each session, which replace those of the role, the database and the server (`ALTER … SET`), because what PostgreSQL
 * reads, writes and does depends on them. `search_path` is not among them: it is how an operator chooses the
 * schema. `client_encoding` is set by the driver.
 */
export const SESSION = {
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  standard_conforming_strings: 'on',
  bytea_output: 'hex',
  array_nulls: 'on',
  extra_float_digits: '1',
  quote_all_identifiers: 'off',
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
  exit_on_error: 'off',
} as const;

/** PgBouncer keeps these settings of a client whose session changes. */
const KEPT: ReadonlySet<string> = new Set(['TimeZone', 'DateStyle', 'standard_conforming_strings']);
/** Settings that the sessions behind a pooler must begin with. */
export const OF_POOLED = Object.entries(SESSION).filter(([name]) => !KEPT.has(name));

/** Halcyon limits the time of its statements itself; migrations, locks of a session and idle connections have no limit. */
export const LIMITS = {
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0',
};

/**
 * Every statement can use an index. Sequential scans are off because a plan made while a table was small is kept until statistics
 * are collected, a minute in which 100,000 rows may arrive; JIT is off because it would treat the penalised scans as expensive.
 * Parallel workers are off because one search would use the cores of all other statements. Without generic plans, a publish of one
 * event takes twice as long, as it does behind a pooler.
 */
const PLANNING = {
  enable_seqscan: 'off',
  jit: 'off',
  max_parallel_workers_per_gather: '0',
  plan_cache_mode: 'force_generic_plan',
};

/** Returns settings as the startup parameter `options`. */
const optionsOf = (settings: Readonly<Record<string, string>>): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(/[\\\s]/g, String.raw`\$&`)}`)
    .join(' ');

/**
 * Returns the startup parameter `options` of a session, and a statement that its connection executes. The parameters are those of
 * the address of the database: they may replace limits and settings of the planner.
 */
export function sessionOf(
  { options: more = '', ...parameters }: Readonly<Record<string, string>>,
  isShared: boolean,
): { options: string; setUp: string | undefined } {
  if (!isShared) {
    const options = [optionsOf({ ...LIMITS, ...PLANNING, ...parameters }), more, optionsOf(SESSION)];
    return { options: options.join(' '), setUp: undefined };
  }
  // PgBouncer 1.18 refuses `options`.
  return {
    options: `${optionsOf(parameters)} ${more}`.trim(),
    setUp: Object.entries(SESSION)
      .map(([name, value]) => `set ${name} = '${value}'`)
      .join('; '),
  };
}
