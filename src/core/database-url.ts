/** Parses the connection URI of libpq ("Connection URIs" in PostgreSQL's manual), which may have several hosts. */

const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
const SESSION_TARGETS = ['any', 'primary', 'read-write'] as const;

/** Absent parts are those of the environment: `PGHOST`, `PGPORT`, … */
export type DatabaseUrl = {
  /** At least one; they are tried in this order. */
  hosts: readonly { host: string | undefined; port: number | undefined }[];
  user: string | undefined;
  password: string | undefined;
  database: string | undefined;
  sslMode: (typeof SSL_MODES)[number];
  target: (typeof SESSION_TARGETS)[number];
  /** Settings of the session. */
  parameters: Record<string, string>;
};

/** What a URL has that is wrong or not supported. The message, such as `has no host`, has no part that may be secret. */
export class DatabaseUrlFault extends Error {}

const URI =
  /^postgres(?:ql)?:\/\/(?:(?<user>[^:/?]*)(?::(?<password>[^/?]*))?@)?(?<hosts>[^/?@]*)(?:\/(?<database>[^?]*))?(?:\?(?<query>.*))?$/s;
const HOST = /^(?:\[(?<address>[^\]]*)\]|(?<name>[^:[\]]*))(?::(?<port>.*))?$/;
const PORT_MAX = 65_535;

/** Parameters of libpq that are no settings of a session, so the server would refuse them. */
const UNSUPPORTED: ReadonlySet<string> = new Set(
  (
    'hostaddr passfile require_auth channel_binding fallback_application_name keepalives keepalives_idle keepalives_interval ' +
    'keepalives_count tcp_user_timeout replication gssencmode gsslib gssdelegation krbsrvname ssl sslnegotiation ' +
    'sslcompression sslcert sslkey sslkeylogfile sslpassword sslcertmode sslcrl sslcrldir sslsni requiressl requirepeer ' +
    'ssl_min_protocol_version ssl_max_protocol_version min_protocol_version max_protocol_version service servicefile ' +
    'load_balance_hosts scram_client_key scram_server_key oauth_issuer oauth_client_id oauth_client_secret oauth_scope'
  ).split(' '),
);

/** All others are settings of the session. `connect_timeout` is ignored: Halcyon limits the time to connect itself. */
const READ: ReadonlySet<string> = new Set(
  'host port user password dbname sslmode sslrootcert target_session_attrs connect_timeout'.split(' '),
);

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new DatabaseUrlFault('has a % that encodes no character: write the character % as %25');
  }
}

/** Returns the parameters of the query. A `+` is no blank, as in libpq. */
function parametersOf(query: string): Map<string, string> {
  const pairs = query.split('&').filter((pair) => pair !== '');
  const parameters = new Map<string, string>();
  for (const pair of pairs) {
    const [name = '', value, ...more] = pair.split('=').map(decoded);
    if (name === '' || value === undefined || more.length > 0)
      throw new DatabaseUrlFault(
        'has a parameter that is not written as name=value: write = and & in a value as %3D and %26',
      );
    if (parameters.has(name)) throw new DatabaseUrlFault(`has the parameter ${name} twice: write it once`);
    if (UNSUPPORTED.has(name)) throw new DatabaseUrlFault(`has the parameter ${name}, which is not supported: omit it`);
    parameters.set(name, value);
  }
  return parameters;
}

/** Returns undefined for an absent port, which is that of the environment. */
function portOf(text: string): number | undefined {
  if (text === '') return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= PORT_MAX) return port;
  const advice = 'write an IPv6 address in brackets, and : / ? @ in a password as %3A %2F %3F %40';
  throw new DatabaseUrlFault(`has a port that is not a number from 1 to ${PORT_MAX}; ${advice}`);
}

/** Returns the hosts before the path; `host` and `port` of the query replace them. One port is that of every host. */
function hostsOf(authority: string, query: Map<string, string>): DatabaseUrl['hosts'] {
  const written = authority.split(',').map((text) => HOST.exec(text)?.groups);
  if (written.includes(undefined))
    throw new DatabaseUrlFault('has a host that is not a name or an address: write an IPv6 address in brackets');
  const names =
    query.get('host')?.split(',') ?? written.map((host) => decoded(host?.['address'] ?? host?.['name'] ?? ''));
  const ports = (query.get('port')?.split(',') ?? written.map((host) => host?.['port'] ?? '')).map(portOf);
  const [first] = ports;
  const isForAll = ports.length === 1 || ports.every((port) => port === undefined);
  if (!isForAll && (ports.length !== names.length || ports.includes(undefined)))
    throw new DatabaseUrlFault('has a port for some of its hosts only: write one for each host');
  return names.map((name, at) => ({
    host: name.replace(/^\[|\]$/g, '') || undefined,
    port: isForAll ? first : ports[at],
  }));
}

function chosen<T extends string>(choices: readonly T[], name: string, value: string): T {
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  throw new DatabaseUrlFault(
    `has the parameter ${name} with another value than ${choices.join(', ')}: write one of these`,
  );
}

/** Throws a `DatabaseUrlFault` for what is not supported, so that no part of a URL is silently ignored. */
export function parseDatabaseUrl(text: string): DatabaseUrl {
  const { user, password, hosts, database, query = '' } = URI.exec(text)?.groups ?? {};
  if (hosts === undefined)
    throw new DatabaseUrlFault('is not an address such as postgres://user:password@host:5432/halcyon');
  const parameters = parametersOf(query);
  const certificate = parameters.get('sslrootcert');
  if (certificate !== undefined && certificate !== 'system')
    throw new DatabaseUrlFault(
      'has a file as sslrootcert, which is not supported: omit it, and set NODE_EXTRA_CA_CERTS to the file',
    );
  const url: DatabaseUrl = {
    hosts: hostsOf(hosts, parameters),
    user: parameters.get('user') ?? (decoded(user ?? '') || undefined),
    password: parameters.get('password') ?? (decoded(password ?? '') || undefined),
    database: parameters.get('dbname') ?? (decoded(database ?? '') || undefined),
    sslMode: chosen(
      SSL_MODES,
      'sslmode',
      parameters.get('sslmode') ?? (certificate === 'system' ? 'verify-full' : 'disable'),
    ),
    target: chosen(SESSION_TARGETS, 'target_session_attrs', parameters.get('target_session_attrs') ?? 'any'),
    parameters: {},
  };
  return { ...url, parameters: Object.fromEntries([...parameters].filter(([name]) => !READ.has(name))) };
}
