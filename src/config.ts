/** The environment, read once into one frozen value. Every limit has its unit in its name. */
import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import {
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

/** A positive safe integer nobody else has: what this process is called in `worker` and `shard_lease`. */
const processId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

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

const deliverySettings = (env: Env) => {
  const leaseMs = integer(env, 'DELIVERY_LEASE_MS', 5_000, 500, 600_000);
  return Object.freeze({
    workerId: processId(),
    leaseMs,
    leaseMarginMs: Math.floor(leaseMs / 4),
    beatMs: Math.floor(leaseMs / 5),
    slots: integer(env, 'DELIVERY_SLOTS', 256, 1, 10_000),
    slotsPerLane: 32,
    laneQueue: 200,
    bodyCacheBytes: 64 * 1024 * 1024,
    unrecordedLimit: 2_000,
    exchangeTimeoutMs: integer(env, 'DELIVERY_TIMEOUT_MS', 30_000, 100, 300_000),
    answerReadBytes: 64 * 1024,
    answerKeptBytes: 16 * 1024,
    originPools: 2_000,
    stopTimeoutMs: 4_000,
    allowedNetworks: networks(env, 'OUTBOUND_ALLOW'),
  });
};

export type Config = ReturnType<typeof readConfig>;

export const readConfig = (env: Env, cwd: string) => {
  const url = databaseUrl(env);
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
      connections,
      retentionDays: integer(env, 'RETENTION_DAYS', 30, 2, 3_650),
      /** How long a store may be searched for one page of a collection. */
      searchLimitMs: integer(env, 'SEARCH_LIMIT_MS', 2_000, 50, 60_000),
      /** Each holds a connection as long as it runs: two thirds stay free for everything else. */
      searchesAtOnce: Math.max(1, Math.floor(connections / 3)),
      searchesWaiting: 10,
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
      stopTimeoutMs: 4_000,
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
