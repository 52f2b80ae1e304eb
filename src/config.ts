/**
 * The environment, read once into one frozen value. Every limit has its unit in its name.
 * A value that cannot be used is a `ConfigError` that says what to change.
 */
import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import { resolve } from 'node:path';

export class ConfigError extends Error {}

type Env = Readonly<Record<string, string | undefined>>;

const integer = (env: Env, name: string, fallback: number, min: number, max: number): number => {
  const text = env[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new ConfigError(`${name} is "${text}": set it to a whole number from ${min} to ${max}`);
};

const token = (env: Env, name: string, fallback: string): string => {
  const text = env[name] || fallback;
  if (/^[A-Za-z][A-Za-z0-9-]{0,40}$/.test(text)) return text;
  throw new ConfigError(`${name} is "${text}": set it to letters, digits and hyphens, at most 41, a letter first`);
};

const origin = (env: Env, name: string, fallback: string): string => {
  const text = env[name] || fallback;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain = url !== undefined && /^https?:$/.test(url.protocol) && url.search === '' && url.hash === '';
  if (plain && url.username === '' && url.password === '') return text.replace(/\/+$/, '');
  throw new ConfigError(`${name} is "${text}": set it to an address such as https://api.example.com`);
};

const databaseUrl = (env: Env): string | undefined => {
  const text = env['DATABASE_URL'];
  if (text === undefined || text === '') return undefined;
  if (/^postgres(ql)?:\/\//.test(text) && URL.canParse(text)) return text;
  throw new ConfigError('DATABASE_URL is not an address such as postgres://user:password@host:5432/halcyon');
};

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** On a laptop the terminal is for the person, so the log is quieter there. */
const logLevel = (env: Env): string => {
  const level = env['LOG_LEVEL'] || (env['DATABASE_URL'] ? 'info' : 'warn');
  if (LOG_LEVELS.includes(level)) return level;
  throw new ConfigError(`LOG_LEVEL is "${level}": set it to one of ${LOG_LEVELS.join(', ')}`);
};

/**
 * 32 bytes as 64 hex digits or base64. Undefined where it is not set, which only the embedded database allows: there one
 * is generated.
 */
const secretKey = (env: Env): Buffer | undefined => {
  const text = env['HALCYON_SECRET_KEY'];
  const make = 'make one with "openssl rand -hex 32"';
  if (text === undefined || text === '') {
    if (!env['DATABASE_URL']) return undefined;
    throw new ConfigError(`Set HALCYON_SECRET_KEY beside DATABASE_URL, it seals secrets at rest: ${make}`);
  }
  const key = /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : Buffer.from(text, 'base64');
  if (key.length === 32) return key;
  throw new ConfigError(`HALCYON_SECRET_KEY must be 32 bytes, written as 64 hex digits or base64: ${make}`);
};

const list = (env: Env, name: string): string[] =>
  (env[name] ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');

/** Addresses and networks, such as `10.0.0.0/8,::1`. */
const networks = (env: Env, name: string): string[] => {
  const parts = list(env, name);
  for (const part of parts) {
    const [address = '', bits = '0', ...rest] = part.split('/');
    const most = isIP(address) === 6 ? 128 : 32;
    const isNetwork = isIP(address) !== 0 && /^[0-9]{1,3}$/.test(bits) && Number(bits) <= most && rest.length === 0;
    if (!isNetwork) throw new ConfigError(`${name} has "${part}": write networks such as 10.0.0.0/8, parted by commas`);
  }
  return parts;
};

/** A positive safe integer nobody else has: what this process is called in `worker` and `shard_lease`. */
const processId = (): number => randomBytes(6).readUIntBE(0, 6) + 1;

export type Config = ReturnType<typeof readConfig>;

export const readConfig = (env: Env, cwd: string) => {
  const url = databaseUrl(env);
  const port = integer(env, 'PORT', 8080, 1, 65_535);
  const baseUrl = origin(env, 'BASE_URL', `http://localhost:${port}`);
  const leaseMs = integer(env, 'DELIVERY_LEASE_MS', 5_000, 500, 600_000);
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
      connections: integer(env, 'DATABASE_CONNECTIONS', 10, 2, 500),
      retentionDays: integer(env, 'RETENTION_DAYS', 30, 2, 3_650),
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
    }),
    oauth: Object.freeze({
      codeLifetimeSeconds: 30,
      accessTokenLifetimeSeconds: 7_200,
      refreshTokenIdleDays: 365,
      sessionLifetimeDays: 30,
      passwordHashesAtOnce: 2,
    }),
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
    }),
    delivery: Object.freeze({
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
    }),
  });
};
