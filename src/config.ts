/** The environment, read once into one frozen value. Every limit has its unit in its name. */
import { resolve } from 'node:path';
import {
  ConfigError,
  databaseUrl,
  flag,
  integer,
  list,
  logLevel,
  mailServer,
  networks,
  origin,
  secretKey,
  token,
  type Env,
} from './env.ts';
import { deliverySettings, stopping } from './delivery-config.ts';

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
});

/** The daily snapshots: how often it is looked for what is due, and how gently it is counted. */
const snapshotSettings = (env: Env) =>
  Object.freeze({
    everyMs: integer(env, 'SNAPSHOT_CHECK_MS', 60_000, 10, 3_600_000),
    storesPerBatch: 100,
    termsPerChunk: 10_000,
    /** How long one store may keep the others waiting. */
    statementMs: 2_000,
  });

export type Config = ReturnType<typeof readConfig>;

const statementSettings = (env: Env, connections: number) => {
  const searchLimitMs = integer(env, 'SEARCH_LIMIT_MS', 2_000, 50, 60_000);
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
  const url = databaseUrl(env, 'DATABASE_URL');
  const directUrl = databaseUrl(env, 'DATABASE_DIRECT_URL');
  if (directUrl !== undefined && url === undefined)
    throw new ConfigError('Set DATABASE_URL beside DATABASE_DIRECT_URL');
  const port = integer(env, 'PORT', 8080, 1, 65_535);
  const baseUrl = origin(env, 'BASE_URL', `http://localhost:${port}`);
  const requestsPerSecond = integer(env, 'API_RATE_PER_SECOND', 100, 0, 100_000);
  const connections = integer(env, 'DATABASE_CONNECTIONS', 10, 2, 500);
  return Object.freeze({
    host: env['HOST'] || '127.0.0.1',
    port,
    baseUrl,
    authUrl: origin(env, 'AUTH_URL', baseUrl),
    dataDir: resolve(cwd, env['HALCYON_DATA'] || '.halcyon'),
    logLevel: logLevel(env),
    secretKey: secretKey(env),
    database: Object.freeze({
      url,
      /** PostgreSQL itself, where `url` leads to PgBouncer: for what a session has to outlive a transaction for. */
      directUrl,
      connections,
      retentionDays: integer(env, 'RETENTION_DAYS', 30, 2, 3_650),
      ...statementSettings(env, connections),
    }),
    naming: Object.freeze({
      relationPrefix: token(env, 'RELATION_PREFIX', 'svc'),
      versionHeader: token(env, 'VERSION_HEADER', 'SERVICE-API-VERSION'),
      webhookHeaderPrefix: token(env, 'WEBHOOK_HEADER_PREFIX', 'Service'),
    }),
    http: Object.freeze({
      bodyLimitBytes: 1024 * 1024,
      eventsBodyLimitBytes: 16 * 1024 * 1024,
      headersLimitBytes: 32 * 1024,
      requestTimeoutMs: 60_000,
      trustedProxies: networks(env, 'TRUSTED_PROXIES'),
    }),
    /** For each grant; 0: no limit. */
    rate: Object.freeze({ requestsPerSecond, burstRequests: 2 * requestsPerSecond }),
    mail: mailServer(env),
    /** 0: no metrics are served. */
    metricsPort: integer(env, 'METRICS_PORT', 0, 0, 65_535),
    oauth: Object.freeze({
      codeLifetimeSeconds: 30,
      accessTokenLifetimeSeconds: 7_200,
      refreshTokenIdleDays: 365,
      clientSecretOverlapHours: 24,
      clientsPerUser: 50,
      /** Whether anybody may register a client through the protocol, without a session or a token. */
      openRegistration: flag(env, 'OPEN_REGISTRATION'),
    }),
    accounts: Object.freeze({
      sessionLifetimeDays: 30,
      passwordHashesAtOnce: 2,
      passwordResetMinutes: 60,
    }),
    housekeeping,
    stopping,
    webhooks: Object.freeze({
      versions: ['2', ...list(env, 'WEBHOOK_VERSIONS')],
      webhooksPerStore: 100,
    }),
    events: Object.freeze({
      eventsPerRequest: 1_000,
      eventLimitBytes: 256 * 1024,
      eventDepth: 8,
      batchRows: 500,
      batchBytes: 4 * 1024 * 1024,
      waitingBytes: 64 * 1024 * 1024,
    }),
    snapshots: snapshotSettings(env),
    delivery: deliverySettings(env),
  });
};
