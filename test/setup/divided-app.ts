/** An application with stores in three databases, driven as the platform. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { shardOf } from '#core/ids.ts';
import type { DatabaseAddress, Sql } from '#db/pool.ts';
import type { Log } from '#core/log.ts';
import { startTestApp } from './app.ts';
import { cleanups, type Cleanups } from './cleanups.ts';
import { singleDatabase } from './database.ts';
import { divide } from './divided.ts';
import { startReceiver, type Got } from './receiver.ts';
import { PATIENCE_MS, until } from './until.ts';

const RANGES = [
  { first: 0, last: 84 },
  { first: 85, last: 169 },
  { first: 170, last: 255 },
] as const;

type Options = {
  log?: Log;
  env?: Record<string, string>;
  /** Returns the url by which the application reaches another database, and the pool by which it reaches the home database. */
  through?: (address: DatabaseAddress, ends: Cleanups) => Promise<string>;
  home?: (address: DatabaseAddress, ends: Cleanups) => Promise<Sql>;
};

export async function startDividedApp({ env, log, through, home: openHome }: Options = {}) {
  const secretKey = randomBytes(32);
  const ends = cleanups();
  const { sql: home, address } = await singleDatabase(ends);
  const options = {
    shards: RANGES,
    secretKey,
    ...(through && { through: (one: DatabaseAddress) => through(one, ends) }),
  };
  const databases = await divide(home, options, ends);
  const ofApp = openHome === undefined ? home : await openHome(address, ends);
  // Responses wait until databases that work have the changes, also on a slow machine.
  const isWhole = through === undefined && openHome === undefined;
  const app = await startTestApp({
    sql: ofApp,
    secretKey,
    ...(env && { env }),
    ...(log && { log }),
    ...(isWhole && { flushMs: PATIENCE_MS }),
  });
  ends.after(app.stop);
  const receiver = await startReceiver();
  const platform = { token: app.platformToken };

  const indexOf = (storeId: number): number =>
    RANGES.findIndex(({ first, last }) => shardOf(storeId) >= first && shardOf(storeId) <= last);
  const databaseOf = (storeId: number): Sql => databases[indexOf(storeId)] ?? assert.fail();

  const call = async (method: string, path: string, options_: Parameters<typeof app.api>[2] = platform) => {
    const response = await app.api(method, path, options_);
    const text = await response.text();
    return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Record<string, unknown> };
  };

  let count = 0;
  /** Creates stores until each database has a new one, and returns these, by database. */
  const createStores = async (): Promise<number[]> => {
    const found = new Map<number, number>();
    while (found.size < RANGES.length) {
      count += 1;
      const domain = `store${count}.example.com`;
      const body = { name: `Store ${count}`, domain, email: 'shop@example.com', time_zone: 'UTC' };
      const made = await call('POST', '/stores', { ...platform, body });
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const id = Number(made.body['id']);
      found.set(indexOf(id), found.get(indexOf(id)) ?? id);
    }
    return RANGES.map((_, index) => found.get(index) ?? assert.fail());
  };

  const publish = (storeId: number, id: number, options_: object = {}) => {
    const body = { event: 'transaction/created', resource: { id } };
    return call('POST', `/stores/${storeId}/events`, { ...platform, body, ...options_ });
  };

  const createWebhook = async (storeId: number, options_: object = {}): Promise<number> => {
    const url = `${receiver.url}/${storeId}`;
    const body = { name: 'Hook', url, format: 'json', encryption_key: 'key', events: ['transaction/created'] };
    const made = await call('POST', `/stores/${storeId}/webhooks`, { ...platform, body, ...options_ });
    assert.equal(made.status, 201, JSON.stringify(made.body));
    return Number(made.body['id']);
  };

  /** Returns the n-th request to the webhook of a store, when it has arrived. */
  const receivedBy = async (storeId: number, n = 1): Promise<Got> => {
    const received = async () => receiver.got.filter(({ path }) => path === `/${storeId}`);
    return (await until(received, ({ length }) => length >= n))[n - 1] ?? assert.fail();
  };

  const stores = { count: () => count, indexOf, databaseOf };
  return {
    app,
    secretKey,
    home,
    databases,
    receiver,
    platform,
    stores,
    call,
    createStores,
    publish,
    createWebhook,
    receivedBy,
  };
}
