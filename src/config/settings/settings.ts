/**
 * All settings, each described once. config.ts reads those of a server and the commands read their own; scripts/settings-table.ts
 * generates the tables in docs/operating.md from them.
 */
import type { Env } from '../env.ts';
import {
  type Setting,
  address,
  anyText,
  contact,
  networkList,
  NONE,
  whole,
  wholeOrAuto,
  unvalidatedText,
  word,
  words,
  database,
  databasesOfShards,
  secretKey,
  secretText,
  storeId,
  onOff,
  proxyUrl,
  choice,
  mailAddress,
  mailUrl,
  openIdProviders,
  originList,
  shownName,
  color,
} from './kind.ts';

// The number of processes.

const PROCESSES = {
  PROCESSES: wholeOrAuto(
    [1, 64],
    'processes of `serve` and `deliver`: see [Processes](#processes). `auto`: as many as the process has processor cores (CPU affinity and the CPU limit of a container count), at most 8; one fewer beside a PostgreSQL on the same machine (the embedded one, a socket or a loopback address), which needs a core too',
  ),
};

// Mail, second factors, sessions, the lifetime of access, sign-up, and the registration of clients by anyone.

const PEOPLE = {
  SMTP_URL: mailUrl(
    'mail server: `smtps://user:password@host` or `smtp://…` (with STARTTLS, except on loopback). Set the same URL in every process. Without it Halcyon sends no mail: `user reset-link` prints links to choose a password, stores are not warned about failing webhooks, and people not about a new device, a new password, a connected app or a new client secret. Links have priority over warnings; up to a thousand of each wait in memory, and the log has an error for each mail that was not sent',
  ),
  MAIL_FROM: mailAddress('sender of mails; required with `SMTP_URL`'),
  REQUIRE_SECOND_FACTOR: onOff(
    'requires a passkey or an authenticator app of everyone who signs in: a person without one can open only the page where both are set up. The grants of apps are not affected',
  ),
  SESSION_IDLE_DAYS: whole(
    14,
    [1, 365],
    'a browser that is not used for this time is signed out. A use is recorded every five minutes; a page that only waits for changes of its list does not use it',
  ),
  SESSION_MAX_DAYS: whole(
    30,
    [1, 365],
    'a browser is signed out this long after its sign-in, even if it is used. Both apply to signed-in browsers from their next use on',
  ),
  REFRESH_TOKEN_MAX_DAYS: whole(
    730,
    [1, 36_500],
    'days after which a user has to allow an app again, however often the app has refreshed its access. A refresh token also expires after a year without use',
  ),
  SIGN_UP: choice(
    '`off`',
    ['off', 'on'],
    '`on` lets anyone create an account at `/sign-up`, with a link that is mailed to the address; it needs `SMTP_URL`. With `off` accounts are created by the platform, by invitations to stores and by `halcyon user create`',
  ),
  PLATFORM_EMAILS_VERIFIED: onOff(
    'trusts the platform about the e-mail addresses of users: another address that it sends for a user replaces the former one at once, and is verified as that was. Without it, the person confirms the address with a mailed link first',
  ),
  PORTAL_FRAME_ORIGINS: originList(
    'origins whose pages may show the pages of a store in a frame, which they open with a [link of the platform](platform.md#a-link-to-the-pages-of-a-store). Without it no page is shown in a frame',
  ),
  OPENID_PROVIDERS: openIdProviders(
    'OpenID providers with which people [sign in](#sign-in-with-openid-providers), each with `name`, `issuer`, `client_id` and `client_secret`, and optionally `domains` and `creates_accounts`',
  ),
  SANDBOX_STORES: choice(
    '`on`',
    ['on', 'off'],
    '`on` lets each user create one sandbox store, in which the user makes sample events to develop apps: it belongs to the user and not to the platform, and is erased with the account. With `off` no new ones are created; `GET /stores?is_sandbox=1` lists those that exist to the platform, which may erase them',
  ),
  PLATFORM_STORE: storeId(
    'id of the store whose webhooks may be sent the [events for the operator](platform.md#events-for-the-operator), about all stores. Set it in every process. Without it there are no such events',
  ),
  OPEN_REGISTRATION: onOff(
    'allows anyone to register clients at `/register`: 20 from one address, then one every 3 minutes. A client without a grant is deleted after 30 days, unless it was verified',
  ),
  CLIENT_METADATA_DOCUMENTS: choice(
    '`on`',
    ['on', 'off'],
    '`on` lets users allow apps that are identified by the https address of their [metadata document](oauth.md#metadata-documents), which MCP clients use: such an app needs no registration, and is unverified. With `off` no more access is given to them; what was given stays until it is revoked',
  ),
};

// The log.

const LOG = {
  LOG_LEVEL: choice(
    '`info`, embedded: `warn`',
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'minimum level of log lines: see [below](#the-log)',
  ),
};

// Limits of deliveries, their allowed networks, and auto-disable.

const DELIVERY = {
  OUTBOUND_ALLOW: networkList(
    'non-public networks that deliveries may reach: see [below](#where-deliveries-may-go)',
    '–, demo: loopback',
  ),
  OUTBOUND_PROXY: proxyUrl(
    'forward proxy through which deliveries reach public addresses, so that endpoints see fixed addresses: see [below](#where-deliveries-may-go)',
  ),
  REQUIRE_WEBHOOK_HANDSHAKE: onOff(
    'a webhook gets a URL only if its endpoint allows deliveries of this service: see [below](#endpoints-that-have-to-agree)',
  ),
  DELIVERY_SLOTS: whole(
    1_024,
    [4, 10_000],
    'concurrent delivery attempts of one process; a quarter of the slots is for slow endpoints ([the budget](delivery-states.md#the-budget-slots-and-quotas)). If many endpoints begin to hang at once, up to four times as many attempts run in addition, with some 20 KB of memory each',
  ),
  DELIVERY_STORE_PERCENT: whole(50, [1, 100], 'maximum share of the slots for one store'),
  DELIVERY_ORIGIN_PERCENT: whole(
    25,
    [1, 100],
    'maximum share of the slots for all webhooks with the same origin (scheme, host and port)',
  ),
  DELIVERY_TIMEOUT_MS: whole(
    30_000,
    [100, 300_000],
    'time limit of an attempt; opening the connection may take at most 10 s of it',
  ),
  DELIVERY_DRAIN_MS: whole(
    2_500,
    [0, 300_000],
    'maximum time for which a stopping process waits for its attempts. Then it aborts the remaining attempts, which are sent again after the next start. With the value of `DELIVERY_TIMEOUT_MS` no attempt is aborted. The whole stop may take 7 s more',
  ),
  DELIVERY_IDLE_SOCKETS: whole(
    2_000,
    [1, 100_000],
    'idle connections to endpoints that one process keeps open, 20 s each. Each connection, idle or in use, needs a file descriptor (`ulimit -n`)',
  ),
  DEACTIVATE_AFTER_FAILURES: whole(
    12,
    [1, 10_000],
    'consecutive failed attempts after which a webhook is disabled, if they span at least `DEACTIVATE_HOUR_AFTER_SECONDS` or `DEACTIVATE_LONG_AFTER_SECONDS`',
  ),
  DEACTIVATE_HOUR_AFTER_SECONDS: whole(
    3_600,
    [1, 31_536_000],
    'minimum time since the first of these failures, for the retry profile `hour`',
  ),
  DEACTIVATE_LONG_AFTER_SECONDS: whole(272_105, [1, 31_536_000], 'the same for the retry profile `long`'),
  DELIVERY_LEASE_MS: whole(
    5_000,
    [500, 600_000],
    'time without a heartbeat after which other workers take over the shards of a worker',
  ),
  SNAPSHOT_CHECK_MS: whole(
    60_000,
    [10, 3_600_000],
    'interval at which a process that delivers looks for stores whose day has ended, to compute their recurring revenue',
  ),
};

// The database, the retention of its data, and the keys that encrypt secrets in it.

const KEEPING = {
  DATABASE_URL: database(
    'PostgreSQL 15 or newer. Without this setting an embedded PostgreSQL runs under `HALCYON_DATA`, with demo data',
    'the embedded one',
  ),
  DATABASE_DIRECT_URL: database(
    'URL of PostgreSQL itself; needed if `DATABASE_URL` is [PgBouncer](#pgbouncer)',
    'as `DATABASE_URL`',
  ),
  DATABASE_CONNECTIONS: whole(
    10,
    [2, 500],
    'size of the connection pool of one process; with [several](#processes) at most three quarters of the connections that PostgreSQL allows are used. A process opens up to six more, for its heartbeat, for LISTEN, for jobs that hold a session lock, and with several databases to watch each',
  ),
  SHARD_DATABASES: databasesOfShards(
    'which database owns which of the 256 shards: [several databases](#several-databases). Needs `DATABASE_URL`, the home database; a range with the same URL belongs to it. Unset: the home database owns all shards, or those of the map that it has',
  ),
  HALCYON_SECRET_KEY: secretKey(
    'key that encrypts secrets in the database. Required with `DATABASE_URL`. Every process needs the same key: a process with another key than that of the database does not start',
    'generated with the embedded database',
  ),
  HALCYON_SECRET_KEY_OTHER: secretKey(
    'second key, used only for decryption while the key is [changed](#change-the-key): the new key before the change, the old key after it',
  ),
  HALCYON_DATA: anyText(
    './.halcyon',
    'a folder',
    'folder of the embedded database, the generated key and the demo credentials',
  ),
  HOME_OUTAGE_SECONDS: whole(
    0,
    [0, 600],
    'how long tokens are accepted that this process has checked before, while the home database is not available, so that [stores in other databases](#several-databases) can still be used. Off by default: a process that is cut off from a home database that works for others accepts a token that was revoked meanwhile. 60 bridges a promotion of a standby',
  ),
  RETENTION_DAYS: whole(
    30,
    [2, 3_650],
    'retention of events, finished deliveries and attempts, [dropped per day](#what-is-kept-and-for-how-long)',
  ),
};

// Settings of the commands that send requests to a server, and of Node itself. Server processes read none of them.

const COMMANDS = {
  HALCYON_SERVER: unvalidatedText(
    'the server of the current login',
    'a URL',
    'API that `login`, `whoami`, `logout`, `listen` and `trigger` use',
  ),
  HALCYON_URL: unvalidatedText(
    "the demo's",
    'a URL',
    'API that `publish`, `load` and `relay` use; default without a demo: `BASE_URL`',
  ),
  HALCYON_CLIENT_ID: unvalidatedText(
    "the demo's",
    'the id of a trusted client',
    'client that `publish`, `load` and `relay` authenticate as',
  ),
  HALCYON_CLIENT_SECRET: secretText(
    "the demo's",
    'its secret',
    'secret that `publish`, `load` and `relay` authenticate with',
  ),
  HALCYON_RELAY_FROM: secretText(
    NONE,
    'a URL: `postgres://…`, `mysql://…`',
    'database of the outbox table that [`relay`](platform.md#relaying-an-outbox-table) publishes',
  ),
  NODE_EXTRA_CA_CERTS: unvalidatedText(
    NONE,
    'a file of certificates',
    'additional certificate authorities that Node trusts, in every process',
  ),
};

// The name, logo and colour of the operator on pages and in mails.

const BRAND = {
  BRAND_NAME: shownName(
    'the name on all pages, also on those for signing in and for approving apps, and of the sender of mails',
  ),
  BRAND_LOGO: unvalidatedText(
    '–',
    'a path',
    'a PNG, JPEG or WebP of at most 64 KiB, shown 32 pixels high before the name. It is a file and not an address, because Halcyon serves it itself: no other server learns who signs in, or can change what the consent page shows',
  ),
  BRAND_COLOR: color(
    'the colour of links and buttons. Its contrast with white and with the paper of the pages must be at least 4.5; the error names the nearest possible colour. In dark mode a lighter one is used if necessary',
    'blue',
  ),
};

// Limits of the API, and configurable names for existing clients.

const API = {
  API_RATE_PER_SECOND: whole(
    100,
    [0, 100_000],
    'requests per second and grant, with a burst of twice as many; `0`: no limit. The [processes](#processes) of a supervisor count together, other processes separately',
  ),
  MCP: onOff(
    'serves [agents](agents.md) at `/mcp`, with the Model Context Protocol: they get access by OAuth, as every app does. A process that serves them takes 34 MB more',
  ),
  SEARCH_LIMIT_MS: whole(
    2_000,
    [50, 60_000],
    'time limit of each SQL statement of a request for a collection (some find and count the items, one reads the page); a request that needs longer is refused. A process runs one search per store at a time, with up to three more waiting, and in total at most as many as a third of its connections',
  ),
  RELATION_PREFIX: word('svc', 'prefix of link relations, for compatibility with existing clients'),
  VERSION_HEADER: word('SERVICE-API-VERSION', 'header with the version of the API'),
  WEBHOOK_HEADER_PREFIX: word('Service', 'prefix of the headers of a delivery: `Service-Webhook-Event`'),
  EVENTS_FILE: unvalidatedText(
    '–',
    'a path',
    'a JSON file of at most 1 MiB that declares [resources and events of your own](events-of-your-own.md). Every process needs the same file, and reads it when it starts',
  ),
  MAPPING_FILE: unvalidatedText(
    '–',
    'a path',
    "a JSON file of at most 1 MiB that says where [the platform's own shapes](platforms.md) have what Halcyon must understand. Every process needs the same file, and reads it when it starts",
  ),
  WEBHOOK_VERSIONS: words("values of a webhook's `version` that are accepted in addition to `2`"),
};

// Ports and public addresses of a process.

const ADDRESSES = {
  PORT: whole(
    8080,
    [1, 65_535],
    "port of the API and the pages. The demo's receiver uses the next port, or any free port if the next one is taken, and the same port at each later start",
  ),
  HOST: anyText('127.0.0.1', 'an address of the machine', 'address to listen on; `0.0.0.0`: all addresses'),
  BASE_URL: address('public URL of the API', '`http://localhost:PORT`'),
  AUTH_URL: address('public URL of the authorization server and the pages', 'as `BASE_URL`'),
  SECURITY_CONTACT: contact(
    'where people report a vulnerability, published at `/.well-known/security.txt` (RFC 9116); without it that address is a 404',
  ),
  NPM_REGISTRY: address('registry of yours that has `@halcyon/receiver`, named by `/docs/receiving`'),
  PYTHON_INDEX: address(
    'package index of yours that has `halcyon-receiver` and the packages of PyPI, named by `/docs/receiving`',
  ),
  TRUSTED_PROXIES: networkList(
    'proxies whose `X-Forwarded-For` is trusted. Required behind a proxy: otherwise all requests have the address of the proxy, and all users share one limit of sign-ins',
  ),
  SHUTDOWN_DELAY_SECONDS: wholeOrAuto(
    [0, 300],
    'how long a stopping process goes on to serve while `/health/ready` is a 503: as long as your load balancer takes to notice. `auto`: 5 with `DATABASE_URL`, otherwise 0',
  ),
  METRICS_PORT: whole(
    0,
    [0, 65_535],
    'separate port on `HOST` for [metrics](#metrics) and [health](#health); `0`: none. It must differ from `PORT`, and between processes on one machine',
  ),
};

const SETTINGS = { ...ADDRESSES, ...PROCESSES, ...KEEPING, ...PEOPLE, ...BRAND, ...API, ...DELIVERY, ...LOG };

/** By subject, in the order of docs/operating.md. */
export const SETTING_GROUPS: readonly (readonly [
  title: string,
  settings: Readonly<Record<string, Setting<unknown>>>,
])[] = [
  ['Addresses', ADDRESSES],
  ['Processes', PROCESSES],
  ['Database and secrets', KEEPING],
  ['People and mail', PEOPLE],
  ['Brand', BRAND],
  ['The API', API],
  ['Deliveries', DELIVERY],
  ['The log', LOG],
  ['Commands that use a server', COMMANDS],
];

export type Settings = { readonly [Name in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[Name]['read']> };

/** Reads each setting by itself; config.ts combines them. Throws a `ConfigError` for the first invalid one. */
export function readSettings(env: Env): Settings {
  return Object.fromEntries(Object.entries(SETTINGS).map(([name, { read }]) => [name, read(env, name)])) as Settings;
}
