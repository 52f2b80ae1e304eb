/** Several server processes that publish to one store and database, without delivery unless requested. */
import { randomBytes } from 'node:crypto';
import type { DatabaseAddress, Sql } from '#db/pool.ts';
import type { Role } from '../../src/server/app.ts';
import { startTestApp, type TestApp } from './app.ts';
import { testDatabase } from './database.ts';
import { cleanups } from './cleanups.ts';
import { freePort } from './free-port.ts';
import { serversOver, type ServerProcess } from './server-process.ts';
import { until } from './until.ts';

type Json = Record<string, unknown>;

/** Returns the events of the response; none if it is an error. */
export type Published = { status: number; events: { id: number; resource_version: number }[]; text: string };
type Asked = { token?: string; body?: unknown; headers?: Record<string, string> };

export type PublishFixture = {
  sql: Sql;
  address: DatabaseAddress;
  storeId: number;
  /** Starts another server, on a new port unless a free one is given. */
  start: (port?: number) => Promise<ServerProcess>;
  ask: (origin: string, method: string, path: string, asked?: Asked) => Promise<Response>;
  publish: (origin: string, body: unknown, key?: string) => Promise<Published>;
  /** Stops all servers and returns the number of deadlocks; connections report statistics when they close. */
  runCleanups: (servers: readonly ServerProcess[]) => Promise<number | undefined>;
  /** Creates a webhook and returns its id. */
  addWebhook: (origin: string, resource: string) => Promise<number>;
};

const asJson = (text: string): Json => JSON.parse(text) as Json;

function eventsOf(status: number, text: string): Published['events'] {
  if (status !== 200 && status !== 201) return [];
  const body = asJson(text);
  const list = status === 201 ? [body] : (body['_embedded'] as Record<string, Json[]>)['svc:events'];
  return list as Published['events'];
}

/** `app` is one more server, in the test process, which provides the store and the tokens. */
export async function openPublishFixture(roles: Role[] = ['serve']): Promise<PublishFixture & { app: TestApp }> {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  const secretKey = randomBytes(32);
  const app = await startTestApp({ sql, roles, secretKey });
  // Its own cleanup runs after the database is dropped.
  ends.after(() => app.stop());
  const { baseUrl, storeId, platformToken } = app;
  const env = {
    HALCYON_SECRET_KEY: secretKey.toString('hex'),
    BASE_URL: baseUrl,
    API_RATE_PER_SECOND: '0',
    OUTBOUND_ALLOW: '127.0.0.0/8',
    DATABASE_CONNECTIONS: '4',
  };
  const startOn = serversOver(address, ends, env);
  const ask: PublishFixture['ask'] = (origin, method, path, { token = app.token, body, headers = {} } = {}) =>
    fetch(origin + path, {
      method,
      headers: {
        'SERVICE-API-VERSION': '1',
        Authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  return {
    app,
    sql,
    address,
    storeId,
    ask,
    start: async (port) => startOn(port ?? (await freePort())),
    runCleanups: async (servers) => {
      for (const server of servers) await server.end('SIGTERM');
      const connected = async () =>
        (
          await sql`select from pg_stat_activity where datname = current_database() and application_name like 'halcyon%'`
        ).length;
      await until(connected, (count) => count === 0);
      const [row] = await sql<{ deadlocks: number }[]>`
        select deadlocks from pg_stat_database where datname = current_database()`;
      return row?.deadlocks;
    },
    publish: async (origin, body, key) => {
      const headers: Record<string, string> = key === undefined ? {} : { 'Idempotency-Key': key };
      const path = `/stores/${storeId}/events`;
      const response = await ask(origin, 'POST', path, { token: platformToken, body, headers });
      const text = await response.text();
      return { status: response.status, events: eventsOf(response.status, text), text };
    },
    addWebhook: async (origin, resource) => {
      const body = {
        name: 'w',
        format: 'json',
        encryption_key: 'k',
        url: 'http://127.0.0.1:9/',
        event_resource: resource,
      };
      const response = await ask(origin, 'POST', `/stores/${storeId}/webhooks`, { body });
      if (response.status !== 201) throw new Error(`No webhook: ${response.status} ${await response.text()}`);
      return Number(((await response.json()) as Json)['id']);
    },
  };
}
