/** The environment, read once into one frozen value. Every limit has its unit in its name. */
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { parseDatabaseUrl } from '#core/database-url.ts';
import { isLoopback } from '#core/loopback.ts';
import { ConfigError } from '#core/config-error.ts';
import { mailServer, readFileOf, secretKeys, type Env } from './env.ts';
import { readLogo } from './brand.ts';
import { readSettings, type Settings } from './settings/settings.ts';
import { randomBytes } from 'node:crypto';

// The files in which the operator declares resources and events of their own, and maps the shapes of the platform. `catalog/own/` checks
// what is in them.

const FILE_BYTES_MAX = 1024 * 1024;

/** Reads the file of a setting, which has the path; throws a `ConfigError` if it cannot be read, is too large or not UTF-8. */
function readDeclarationFile(setting: string, path: string | undefined, cwd: string) {
  if (path === undefined) return undefined;
  const body = readFileOf(setting, path, FILE_BYTES_MAX, cwd);
  try {
    return { path, text: new TextDecoder('utf-8', { fatal: true }).decode(body) };
  } catch {
    throw new ConfigError(`${setting} is "${path}": save the file as UTF-8`);
  }
}

/** Most processes that `PROCESSES=auto` starts: each needs memory and database connections of its own. */
const AUTO_PROCESSES_MAX = 8;

/** Retention of expired rows, and the pace of their deletion. */
const housekeeping = Object.freeze({
  everyMs: 60_000,
  batchRows: 100,
  pauseMs: 25,
  /** Keeps used codes after their expiry, so that reuse is detected. */
  codeKeptMinutes: 30,
  /** Until then an expired access token is reported as expired, later as unknown. */
  accessTokenKeptHours: 24,
  rotatedTokenKeptDays: 30,
  revokedGrantKeptDays: 30,
  auditKeptDays: 365,
  webhookHoursKeptDays: 31,
});

/** Daily snapshots: interval of the search for due books, and limits of the count. */
const snapshotSettings = (set: Settings) =>
  Object.freeze({
    everyMs: set.SNAPSHOT_CHECK_MS,
    storesPerBatch: 100,
    termsPerChunk: 10_000,
    /** Longest statement for one store; other stores wait behind it. */
    statementMs: 2_000,
  });

/**
 * Recoveries: interval of the search for work, and how much they yield to live deliveries. With at most 32 due, a webhook
 * recovers 300 events a second and the p95 of 500 live events a second stays (× 1.02); with 64 it was 590 and × 1.6, with 300
 * 2,140 and × 2.5.
 */
const recoverySettings = Object.freeze({
  everyMs: 1_000,
  idleEveryMs: 30_000,
  pauseMs: 100,
  retryAfterMs: 30_000,
  dueDeliveriesMax: 32,
  pendingDeliveriesMax: 2_000,
  pageDeliveriesMin: 16,
});

/** Listeners of pull webhooks and their limits. An idle stream costs two statements a second. */
const pullSettings = Object.freeze({
  streamsMax: 200,
  streamsPerStoreMax: 20,
  unansweredMax: 100,
  /** Unread bytes per listener; one message more is allowed. */
  bufferBytes: 64 * 1024,
  pollMs: 500,
  commentMs: 15_000,
  recheckMs: 3_000,
  /** Delay that a listener waits before it reconnects. */
  retryMs: 1_000,
  /** Time that a stopping server waits for a listener that does not read. */
  closeTimeoutMs: 1_000,
  /** A pull webhook without a listener for this long is deleted. */
  unattendedHours: 24,
});

/** Open pages that are notified of changes in their store. They cost one statement a second for each store. */
const livePageSettings = Object.freeze({
  streamsMax: 200,
  streamsPerStoreMax: 20,
  pollMs: 1_000,
  retryMs: 5_000,
  commentMs: 15_000,
  recheckMs: 5_000,
  closeTimeoutMs: 1_000,
  bufferBytes: 1_024,
});

function accountSettings(set: Settings, { processes, authUrl }: { processes: number; authUrl: string }) {
  const { protocol, hostname } = new URL(authUrl);
  if (set.PORTAL_FRAME_ORIGINS.length > 0 && protocol !== 'https:' && !isLoopback(hostname))
    throw new ConfigError(
      'PORTAL_FRAME_ORIGINS needs https in AUTH_URL: browsers keep cookies of frames for https alone',
    );
  if (set.SIGN_UP === 'on' && set.SMTP_URL === undefined)
    throw new ConfigError('Set SMTP_URL beside SIGN_UP=on: a new account is verified by mail');
  return Object.freeze({
    requiresSecondFactor: set.REQUIRE_SECOND_FACTOR,
    sessions: Object.freeze({ idleDays: set.SESSION_IDLE_DAYS, maxDays: set.SESSION_MAX_DAYS }),
    /** Per process. Each hash takes a core, and 19 MiB. */
    passwordHashesAtOnce: processes === 1 ? 2 : 1,
    passwordResetMinutes: 60,
    emailConfirmHours: 24,
    emailUndoDays: 7,
    allowsSignUp: set.SIGN_UP === 'on',
    signUpMinutes: 60,
    /** The origins whose pages may show the pages of a store in a frame, after a link of the platform. */
    portalFrameOrigins: set.PORTAL_FRAME_ORIGINS,
    platformEmailsVerified: set.PLATFORM_EMAILS_VERIFIED,
    openIdProviders: set.OPENID_PROVIDERS,
  });
}

const storeSettings = (set: Settings) =>
  Object.freeze({
    membersPerStore: 100,
    invitationsPerStore: 100,
    invitationLifetimeHours: 72,
    /** Whether users may create sandbox stores. */
    allowsSandboxes: set.SANDBOX_STORES !== 'off',
    /** The store whose webhooks are sent the events for the operator; undefined for none. */
    platformStore: set.PLATFORM_STORE,
  });

const webhookSettings = (set: Settings, baseUrl: string) =>
  Object.freeze({
    /** The name of this service in the handshake with endpoints; undefined if none is required. */
    handshakeOrigin: set.REQUIRE_WEBHOOK_HANDSHAKE ? new URL(baseUrl).hostname : undefined,
    versions: ['2', ...set.WEBHOOK_VERSIONS],
    webhooksPerStore: 100,
    /** Both keys of a rotation are valid for this long. */
    keyOverlapHours: 24,
  });

const eventSettings = (set: Settings, cwd: string) =>
  Object.freeze({
    /** Declares resources and events of the operator; undefined if there are only the built-in ones. */
    file: readDeclarationFile('EVENTS_FILE', set.EVENTS_FILE, cwd),
    /** Maps the shapes of the platform's resources; undefined if they have the members that Halcyon knows. */
    mapping: readDeclarationFile('MAPPING_FILE', set.MAPPING_FILE, cwd),
    eventsPerRequest: 1_000,
    eventLimitBytes: 256 * 1024,
    eventDepth: 8,
    batchRows: 500,
    batchBytes: 4 * 1024 * 1024,
    /** Leaves connections to the other statements. */
    batchesAtOnce: Math.max(2, Math.floor(set.DATABASE_CONNECTIONS / 2)),
    waitingBytes: 64 * 1024 * 1024,
  });

export type Config = ReturnType<typeof readConfig>;

function statementSettings({ SEARCH_LIMIT_MS: searchLimitMs, DATABASE_CONNECTIONS: connections }: Settings) {
  return {
    /** Longest search for one page of a collection. */
    searchLimitMs,
    /** A connection with a waiting statement is closed after this silence: several leases, and longer than any search. */
    silenceMs: Math.max(30_000, 2 * searchLimitMs),
    /** A search occupies a connection; two thirds stay free for everything else. */
    searchesAtOnce: Math.max(1, Math.floor(connections / 3)),
    searchesWaiting: 3,
  };
}

/** Where other programs get the packages of Halcyon; `npm run packages` writes the folder. */
const packageSettings = ({ NPM_REGISTRY: npmRegistry, PYTHON_INDEX: pythonIndex }: Settings) =>
  Object.freeze({ dir: join(import.meta.dirname, '../../packages/built'), npmRegistry, pythonIndex });

/** A loopback address, or the folder of a socket. */
const ON_THIS_MACHINE = /^(?:localhost|127(?:\.\d+){3}|::1|\/.*)$/i;

/** Returns whether PostgreSQL takes processor time of this machine: the embedded one does. */
function isOnThisMachine(url: string | undefined, env: Env): boolean {
  if (url === undefined) return true;
  return parseDatabaseUrl(url).hosts.every(({ host }) => ON_THIS_MACHINE.test(host ?? (env['PGHOST'] || 'localhost')));
}

const httpSettings = (set: Settings) =>
  Object.freeze({
    bodyLimitBytes: 1024 * 1024,
    eventsBodyLimitBytes: 16 * 1024 * 1024,
    headersLimitBytes: 32 * 1024,
    requestTimeoutMs: 60_000,
    unsentMs: 15_000,
    unsentBytesMax: 256 * 1024 * 1024,
    arrivingBytesMax: 256 * 1024 * 1024,
    trustedProxies: set.TRUSTED_PROXIES,
  });

export function readConfig(env: Env, cwd: string) {
  const set = readSettings(env);
  const url = set.DATABASE_URL;
  if (set.DATABASE_DIRECT_URL !== undefined && url === undefined)
    throw new ConfigError('Set DATABASE_URL beside DATABASE_DIRECT_URL');
  if (set.SHARD_DATABASES !== undefined && url === undefined)
    throw new ConfigError('Set DATABASE_URL beside SHARD_DATABASES: the home database, which has the map of shards');
  const baseUrl = set.BASE_URL ?? `http://localhost:${set.PORT}`;
  const authUrl = set.AUTH_URL ?? baseUrl;
  const requestsPerSecond = set.API_RATE_PER_SECOND;
  // PostgreSQL needs a core: beside it on two, one process takes 35 % less CPU time per delivered event than two (docs/measurements/servers.md).
  const cores = availableParallelism() - (isOnThisMachine(set.DATABASE_DIRECT_URL ?? url, env) ? 1 : 0);
  const processes = set.PROCESSES ?? Math.min(AUTO_PROCESSES_MAX, Math.max(1, cores));
  return Object.freeze({
    host: set.HOST,
    port: set.PORT,
    /** Above 1, the first process is the supervisor of this many others. */
    processes,
    baseUrl,
    authUrl,
    securityContact: set.SECURITY_CONTACT,
    packages: packageSettings(set),
    dataDir: resolve(cwd, set.HALCYON_DATA),
    /** With the embedded database the terminal is read by a person, so only warnings are logged. */
    logLevel: set.LOG_LEVEL ?? (url === undefined ? 'warn' : 'info'),
    secretKeys: secretKeys(set.HALCYON_SECRET_KEY, set.HALCYON_SECRET_KEY_OTHER, url === undefined),
    database: Object.freeze({
      url,
      /** Direct connection to PostgreSQL if `url` leads to PgBouncer: session locks and LISTEN need it. */
      directUrl: set.DATABASE_DIRECT_URL,
      /** The databases that own the shards; undefined: the map in the home database (`url`) says so. */
      shards: set.SHARD_DATABASES,
      connections: set.DATABASE_CONNECTIONS,
      retentionDays: set.RETENTION_DAYS,
      /** How long known tokens are accepted while the home database is not available. */
      homeOutageMs: set.HOME_OUTAGE_SECONDS * 1_000,
      ...statementSettings(set),
    }),
    naming: Object.freeze({
      relationPrefix: set.RELATION_PREFIX,
      versionHeader: set.VERSION_HEADER,
      webhookHeaderPrefix: set.WEBHOOK_HEADER_PREFIX,
    }),
    http: httpSettings(set),
    /** Per grant; 0 disables the limit. */
    rate: Object.freeze({ requestsPerSecond, burstRequests: 2 * requestsPerSecond }),
    /** Whether agents are served at /mcp. */
    mcp: set.MCP,
    mail: mailServer(set.SMTP_URL, set.MAIL_FROM, set.BRAND_NAME),
    brand: Object.freeze({ name: set.BRAND_NAME, logo: readLogo(set.BRAND_LOGO, cwd), accent: set.BRAND_COLOR }),
    /** 0 disables the metrics listener. */
    metricsPort: set.METRICS_PORT,
    oauth: Object.freeze({
      codeLifetimeSeconds: 30,
      accessTokenLifetimeSeconds: 7_200,
      refreshTokenIdleDays: 365,
      refreshTokenMaxDays: set.REFRESH_TOKEN_MAX_DAYS,
      clientSecretOverlapHours: 24,
      clientsPerUser: 50,
      /** Whether a client may be registered through the protocol without a session or a token. */
      openRegistration: set.OPEN_REGISTRATION,
      acceptsMetadataDocuments: set.CLIENT_METADATA_DOCUMENTS !== 'off',
    }),
    accounts: accountSettings(set, { processes, authUrl }),
    housekeeping,
    stopping: Object.freeze(stoppingSettings(set)),
    stores: storeSettings(set),
    webhooks: webhookSettings(set, baseUrl),
    events: eventSettings(set, cwd),
    snapshots: snapshotSettings(set),
    recoveries: recoverySettings,
    pull: pullSettings,
    livePages: livePageSettings,
    delivery: deliverySettings(set),
  });
}

// The settings of delivery.

/** Returns a random positive safe integer that identifies this process in `worker` and `shard_lease`. */
const processId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

/**
 * Time limits of a graceful stop, ten seconds by default: the parts stop one after the other, each within its limit, even if
 * the database or a receiver does not respond. The rest is done after the next start.
 */
function stoppingSettings(set: Settings) {
  // A person who stops the demo does not wait for a load balancer.
  const delayMs = (set.SHUTDOWN_DELAY_SECONDS ?? (set.DATABASE_URL === undefined ? 0 : 5)) * 1_000;
  return {
    /** The process serves on while load balancers see that it is not ready. */
    delayMs,
    requestsMs: 1_500,
    /** Running requests are aborted after this time, and the next owner sends them again. */
    exchangesMs: set.DELIVERY_DRAIN_MS,
    /** For writing the last results. */
    recordsMs: 1_000,
    handBackMs: 500,
    mailsMs: 2_000,
    /** For each other part. */
    othersMs: 250,
    databaseMs: 1_000,
    /** The process exits after this time; nothing accepted is lost. */
    allMs: delayMs + 7_000 + set.DELIVERY_DRAIN_MS,
  };
}

/** Slots: how many attempts run at once, in total and per class. A waiting connection costs some 20 KB. */
function slotSettings(set: Settings) {
  const slots = set.DELIVERY_SLOTS;
  return {
    slots,
    /** Beyond `slots`, for attempts that began fast and hang: a fifth of 20,000 endpoints may do so at once. */
    overdraftSlots: 4 * slots,
    slowAfterMs: 1_000,
    slowSlotsPercent: 25,
    newSlotsPercent: 50,
    freshSlotsPercent: 25,
    retrySlotsPercent: 10,
    storeSlotsPercent: set.DELIVERY_STORE_PERCENT,
    originSlotsPercent: set.DELIVERY_ORIGIN_PERCENT,
    slotsPerLane: 32,
    slotsPerSlowLane: 4,
  };
}

/** Disables a webhook after this many consecutive failures that span at least the time below. */
const deactivationSettings = (set: Settings) => ({
  deactivateAfterFailures: set.DEACTIVATE_AFTER_FAILURES,
  /** By retry profile: the span of its retries without jitter. */
  deactivateAfterSeconds: Object.freeze({
    hour: set.DEACTIVATE_HOUR_AFTER_SECONDS,
    long: set.DEACTIVATE_LONG_AFTER_SECONDS,
  }),
});

function deliverySettings(set: Settings) {
  const leaseMs = set.DELIVERY_LEASE_MS;
  return Object.freeze({
    ...deactivationSettings(set),
    workerId: processId(),
    leaseMs,
    leaseMarginMs: Math.floor(leaseMs / 4),
    beatMs: Math.floor(leaseMs / 5),
    ...slotSettings(set),
    laneQueue: 200,
    endpointsKept: 100_000,
    heldDeliveries: 100_000,
    heldLanes: 10_000,
    bodyCacheBytes: 64 * 1024 * 1024,
    unrecordedLimit: 2_000,
    hourlyStatsEveryMs: 2_000,
    hourlyStatsRows: 50_000,
    /** Deliveries of pull webhooks that no listener has acknowledged end after this time. */
    unfetchedDays: set.RETENTION_DAYS,
    exchangeTimeoutMs: set.DELIVERY_TIMEOUT_MS,
    /** Concurrent test deliveries, in addition to the slots; those of one store do not keep others waiting. */
    testDeliveriesAtOnce: 8,
    testDeliveriesOfStore: 2,
    /** Handshakes with endpoints, in addition to the slots, and their numbers per minute: the burst is one minute's number. */
    handshakesAtOnce: 8,
    handshakesAtOnceOfAsker: 2,
    handshakesAtOnceOfApps: 4,
    handshakeTimeoutMs: 5_000,
    documentTimeoutMs: 5_000,
    handshakesPerMinuteOfStore: 10,
    handshakesPerMinuteOfHost: 60,
    answerReadBytes: 64 * 1024,
    answerKeptBytes: 16 * 1024,
    connectTimeoutMs: 10_000,
    lookupTimeoutMs: 5_000,
    lookupsAtOnce: 1_000,
    lookupKeptMs: 30_000,
    failedLookupKeptMs: 10_000,
    addressesKept: 20_000,
    idleSockets: set.DELIVERY_IDLE_SOCKETS,
    idleSocketMs: 20_000,
    connectionAgeMs: 300_000,
    tlsSessions: 4_000,
    stopping: stoppingSettings(set),
    allowedNetworks: set.OUTBOUND_ALLOW,
    outboundProxy: set.OUTBOUND_PROXY,
  });
}
