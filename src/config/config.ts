/** The environment, read once into one frozen value. Every limit has its unit in its name. */
import { resolve } from 'node:path';
import { ConfigError, mailServer, secretKeys, type Env } from './env.ts';
import { deliverySettings, stoppingSettings } from './delivery.ts';
import { readSettings, type Settings } from './settings/settings.ts';

/** How long what has run out is kept, and how gently it is purged. */
const housekeeping = Object.freeze({
  everyMs: 60_000,
  batchRows: 100,
  pauseMs: 25,
  /** How long a code is kept after it ran out, so that its reuse is noticed. */
  codeKeptMinutes: 30,
  /** How long an expired access token is told apart from one that never was. */
  accessTokenKeptHours: 24,
  rotatedTokenKeptDays: 30,
  revokedGrantKeptDays: 30,
  auditKeptDays: 365,
  webhookHoursKeptDays: 7,
});

/** The daily snapshots: how often it is looked for what is due, and how gently it is counted. */
const snapshotSettings = (set: Settings) =>
  Object.freeze({
    everyMs: set.SNAPSHOT_CHECK_MS,
    storesPerBatch: 100,
    termsPerChunk: 10_000,
    /** How long one store may keep the others waiting. */
    statementMs: 2_000,
  });

/**
 * Recoveries: how often it is looked for them, and how they yield to live deliveries. With 32 due at most a webhook is brought 300
 * events a second, and p95 of 500 live events a second stays (× 1.02); with 64 it was 590 and × 1.6, with 300 2,140 and × 2.5.
 */
const recoverySettings = Object.freeze({
  everyMs: 1_000,
  pauseMs: 100,
  retryAfterMs: 30_000,
  dueDeliveriesMax: 32,
  pendingDeliveriesMax: 2_000,
  pageDeliveriesMin: 16,
});

/** Listeners of held webhooks, and how much each may have at once. A stream costs two statements a second while nothing happens. */
const heldSettings = Object.freeze({
  streamsMax: 200,
  streamsPerStoreMax: 20,
  unansweredMax: 100,
  /** What a listener has not read; one message more. */
  bufferBytes: 64 * 1024,
  pollMs: 500,
  commentMs: 15_000,
  recheckMs: 3_000,
  /** When a listener is to come again whose stream broke off. */
  retryMs: 1_000,
  /** How long one that does not read is waited for at the end. */
  goodbyeMs: 1_000,
  /** A webhook to which nobody has listened for so long is deleted. */
  unheardHours: 24,
});

const webhookSettings = (set: Settings) =>
  Object.freeze({
    versions: ['2', ...set.WEBHOOK_VERSIONS],
    webhooksPerStore: 100,
    /** For how long a key that is rotated counts beside the new one. */
    keyOverlapHours: 24,
  });

export type Config = ReturnType<typeof readConfig>;

const statementSettings = ({ SEARCH_LIMIT_MS: searchLimitMs, DATABASE_CONNECTIONS: connections }: Settings) => {
  return {
    /** How long a store may be searched for one page of a collection. */
    searchLimitMs,
    /** How long a connection may be silent while a statement waits there: some leases, and longer than any search. */
    silenceMs: Math.max(30_000, 2 * searchLimitMs),
    /** Each holds a connection as long as it runs: two thirds stay free for everything else. */
    searchesAtOnce: Math.max(1, Math.floor(connections / 3)),
    searchesWaiting: 10,
  };
};

export const readConfig = (env: Env, cwd: string) => {
  const set = readSettings(env);
  const url = set.DATABASE_URL;
  if (set.DATABASE_DIRECT_URL !== undefined && url === undefined)
    throw new ConfigError('Set DATABASE_URL beside DATABASE_DIRECT_URL');
  const baseUrl = set.BASE_URL ?? `http://localhost:${set.PORT}`;
  const requestsPerSecond = set.API_RATE_PER_SECOND;
  return Object.freeze({
    host: set.HOST,
    port: set.PORT,
    baseUrl,
    authUrl: set.AUTH_URL ?? baseUrl,
    dataDir: resolve(cwd, set.HALCYON_DATA),
    /** On a laptop the terminal is for the person, so the log is quieter there. */
    logLevel: set.LOG_LEVEL ?? (url === undefined ? 'warn' : 'info'),
    secretKeys: secretKeys(set.HALCYON_SECRET_KEY, set.HALCYON_SECRET_KEY_OTHER, url === undefined),
    database: Object.freeze({
      url,
      /** PostgreSQL itself, where `url` leads to PgBouncer: for what a session has to outlive a transaction for. */
      directUrl: set.DATABASE_DIRECT_URL,
      connections: set.DATABASE_CONNECTIONS,
      retentionDays: set.RETENTION_DAYS,
      ...statementSettings(set),
    }),
    naming: Object.freeze({
      relationPrefix: set.RELATION_PREFIX,
      versionHeader: set.VERSION_HEADER,
      webhookHeaderPrefix: set.WEBHOOK_HEADER_PREFIX,
    }),
    http: Object.freeze({
      bodyLimitBytes: 1024 * 1024,
      eventsBodyLimitBytes: 16 * 1024 * 1024,
      headersLimitBytes: 32 * 1024,
      requestTimeoutMs: 60_000,
      trustedProxies: set.TRUSTED_PROXIES,
    }),
    /** For each grant; 0: no limit. */
    rate: Object.freeze({ requestsPerSecond, burstRequests: 2 * requestsPerSecond }),
    mail: mailServer(set.SMTP_URL, set.MAIL_FROM),
    /** 0: no metrics are served. */
    metricsPort: set.METRICS_PORT,
    oauth: Object.freeze({
      codeLifetimeSeconds: 30,
      accessTokenLifetimeSeconds: 7_200,
      refreshTokenIdleDays: 365,
      clientSecretOverlapHours: 24,
      clientsPerUser: 50,
      /** Whether anybody may register a client through the protocol, without a session or a token. */
      openRegistration: set.OPEN_REGISTRATION,
    }),
    accounts: Object.freeze({
      sessionLifetimeDays: 30,
      passwordHashesAtOnce: 2,
      passwordResetMinutes: 60,
    }),
    housekeeping,
    stopping: Object.freeze(stoppingSettings(set)),
    stores: Object.freeze({ membersPerStore: 100 }),
    webhooks: webhookSettings(set),
    events: Object.freeze({
      eventsPerRequest: 1_000,
      eventLimitBytes: 256 * 1024,
      eventDepth: 8,
      batchRows: 500,
      batchBytes: 4 * 1024 * 1024,
      /** Others need connections too. */
      batchesAtOnce: Math.max(2, Math.floor(set.DATABASE_CONNECTIONS / 2)),
      waitingBytes: 64 * 1024 * 1024,
    }),
    snapshots: snapshotSettings(set),
    recoveries: recoverySettings,
    held: heldSettings,
    delivery: deliverySettings(set),
  });
};
