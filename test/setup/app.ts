/** The complete application on its own database, driven over HTTP by the journeys. */
import { randomBytes } from 'node:crypto';
import { createUser } from '#identity/accounts/users.ts';
import type { Sql } from '#db/pool.ts';
import { createLog, type Log } from '#core/log.ts';
import { createClient } from '#identity/oauth/clients/clients.ts';
import { addMember, createStore } from '#stores/store.ts';
import { startApp, type Role } from '../../src/server/app.ts';
import { readConfig } from '../../src/config/config.ts';
import type { Pace } from '#core/lifecycle.ts';
import { BriefPace, testClock, type TestClock } from './clock.ts';
import { testDatabase } from './database.ts';
import { cleanups } from './cleanups.ts';
import { freePort } from './free-port.ts';
import { respond } from './send.ts';
import { divideSuite, homeOf } from './suite-map.ts';
import { letAppIn } from './grant-access.ts';
import { openPools } from './store-pools.ts';
import { LOW_COST, passwords } from './passwords.ts';

type Asked = { token?: string; body?: unknown; headers?: Record<string, string> };

export type TestApp = {
  baseUrl: string;
  sql: Sql;
  clock: TestClock;
  storeId: number;
  userId: number;
  /** The token of an app with access to the store. */
  token: string;
  /** The token of the platform. */
  platformToken: string;
  /** Sends a request to the API, with `body` as JSON. */
  api: (method: string, path: string, options?: Asked) => Promise<Response>;
  /** Makes the application unready before a stop, as a stop signal does. */
  retire: () => Promise<void>;
  stop: () => Promise<void>;
  /** Stops the application and starts it again with the same settings, or with changed ones. */
  restart: (changes?: Record<string, string>) => Promise<void>;
  /** Starts the application once more over the same database, by default as a server that delivers nothing, and returns its address. */
  startSecond: (deps?: { roles: Role[]; pace: Pace }) => Promise<string>;
};

async function populate(sql: Sql, baseUrl: string, now: Date) {
  const { id: userId } = await createUser(sql, passwords, {
    email: 'owner@example.com',
    password: 'a long password',
    now,
  });
  const { id: storeId } = await createStore(sql, {
    name: 'Test Store',
    domain: 'test.example.com',
    email: 'owner@example.com',
    timeZone: 'Europe/Berlin',
    now,
  });
  await addMember(sql, { storeId, userId, role: 'owner', now });
  const app = await createClient(sql, {
    name: 'App',
    redirectUris: ['https://app.example.com/cb'],
    trusted: false,
    now,
  });
  const tokens = await letAppIn({ sql, baseUrl }, { clientId: app.client_id, userId, storeId, now });
  const platform = await createClient(sql, { name: 'Platform', redirectUris: [], trusted: true, now });
  return { userId, storeId, token: tokens.access_token, platform };
}

async function platformTokenOf(
  baseUrl: string,
  platform: { client_id: string; client_secret: string },
): Promise<string> {
  const response = await fetch(`${baseUrl}/token`, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'platform', ...platform }),
  });
  const answer = (await response.json()) as { access_token?: string };
  if (answer.access_token === undefined)
    throw new Error(`No platform token: ${response.status} ${JSON.stringify(answer)}`);
  return answer.access_token;
}

export async function startTestApp(
  options: {
    roles?: Role[];
    env?: Record<string, string>;
    sql?: Sql;
    clock?: TestClock;
    pace?: Pace;
    secretKey?: Buffer;
    log?: Log;
    flushMs?: number;
    /** The folder of the packages that /docs/receiving offers. */
    packagesDir?: string;
  } = {},
): Promise<TestApp> {
  const ends = cleanups();
  const sql = options.sql ?? (await testDatabase(ends)).sql;
  const secretKey = options.secretKey ?? randomBytes(32);
  await divideSuite(sql, secretKey);
  const clock = options.clock ?? testClock();
  const port = await freePort();
  const env = {
    PORT: String(port),
    OUTBOUND_ALLOW: '127.0.0.0/8,::1',
    LOG_LEVEL: 'error',
    API_RATE_PER_SECOND: '0',
    // A search during a pause of the machine is not refused.
    SEARCH_LIMIT_MS: '60000',
    ...options.env,
  };
  const read = readConfig(env, process.cwd());
  // Without the packages that a developer has built.
  const config = { ...read, packages: { ...read.packages, dir: options.packagesDir ?? '/nowhere' } };
  const parts = {
    config,
    sql: homeOf(sql),
    direct: homeOf(sql),
    secretKeys: [secretKey],
    clock,
    pace: options.pace ?? new BriefPace(),
    openPools,
    random: () => 0.5,
    passwordCost: LOW_COST,
    log: options.log ?? createLog(config.logLevel),
    roles: options.roles ?? ['serve', 'deliver'],
    ...(options.flushMs !== undefined && { flushMs: options.flushMs }),
  } as const;
  let running = await startApp(parts);
  ends.after(() => running.stop());
  const { platform, ...made } = await populate(sql, config.baseUrl, clock.now());
  const platformToken = await platformTokenOf(config.baseUrl, platform);
  return {
    baseUrl: config.baseUrl,
    sql,
    clock,
    ...made,
    platformToken,
    api: (method, path, { token = made.token, body, headers = {} } = {}) =>
      respond(path.startsWith('http') ? path : config.baseUrl + path, {
        method,
        headers: {
          'SERVICE-API-VERSION': '1',
          Authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    retire: () => running.retire(),
    stop: () => running.stop(),
    restart: async (changes) => {
      await running.stop();
      running = await startApp(
        changes ? { ...parts, config: readConfig({ ...env, ...changes }, process.cwd()) } : parts,
      );
    },
    startSecond: async (deps = { roles: ['serve'], pace: new BriefPace() }) => {
      const own = { ...env, PORT: String(await freePort()), BASE_URL: config.baseUrl };
      const second = await startApp({ ...parts, config: readConfig(own, process.cwd()), ...deps });
      ends.after(() => second.stop());
      return `http://127.0.0.1:${own.PORT}`;
    },
  };
}
