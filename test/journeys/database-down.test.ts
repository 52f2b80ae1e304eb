/** One of three databases is down: stores in the others are not affected, and it is used again when it returns. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { createSealer } from '#db/seal.ts';
import { isUnavailable } from '#db/unavailable.ts';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import { replaceAddresses } from '#shards/adopt.ts';
import { HOME } from '#shards/map.ts';
import { readMap } from '#shards/map-sql.ts';
import type { Cleanups } from '../setup/cleanups.ts';
import { startDividedApp } from '../setup/divided-app.ts';
import type { Got } from '../setup/receiver.ts';
import { startProxy, type Proxy } from '../setup/proxy.ts';
import { until } from '../setup/until.ts';
import { urlOf } from '../setup/database.ts';

const proxies: Proxy[] = [];
const addresses: DatabaseAddress[] = [];
async function throughProxy(address: DatabaseAddress, ends: Cleanups): Promise<string> {
  if (address.kind !== 'socket') throw new TypeError('The test server listens on a socket');
  const proxy = await startProxy(address, ends);
  proxies.push(proxy);
  addresses.push(address);
  return proxy.url;
}
type Said = { msg: string; database?: number; err?: { code?: string } };
const said: Said[] = [];
let saidBytes = 0;
const divided = await startDividedApp({
  through: throughProxy,
  home: async (address, ends) => {
    const sql = openPool(
      { kind: 'url', url: await throughProxy(address, ends) },
      { connections: 10, applicationName: 'test' },
    );
    ends.after(async () => sql.end({ timeout: 0 }));
    return sql;
  },
  env: { HOME_OUTAGE_SECONDS: '60' },
  log: createLog(
    'warn',
    {
      write: (line) => {
        said.push(JSON.parse(line) as Said);
        saidBytes += line.length;
      },
    },
    // The minute of the log does not end.
    { isUnavailable, nowMs: () => 0 },
  ),
});
const { app, platform, call, createStores, publish, createWebhook, receivedBy } = divided;
const [first = assert.fail(), second = assert.fail(), ofHome = assert.fail()] = proxies;
const ids = await createStores();
const [inHome = assert.fail(), inFirst = assert.fail(), inSecond = assert.fail()] = ids;
for (const id of ids) {
  await createWebhook(id);
  assert.equal((await publish(id, 1)).status, 201);
  await receivedBy(id);
}

const messageOf = ({ body }: { body: Record<string, unknown> }): string => JSON.stringify(body);
let events = 1;
/** Publishes an event and returns its delivery. */
const published = async (id: number): Promise<Got> => {
  const before = divided.receiver.got.filter(({ path }) => path === `/${id}`).length;
  assert.equal((await publish(id, (events += 1))).status, 201);
  return receivedBy(id, before + 1);
};

/** Waits until the store is published to again: a process notices within a second that its database responds. */
const untilBack = async (id: number): Promise<void> => {
  await until(
    () => publish(id, (events += 1)),
    ({ status }) => status === 201,
  );
};

test('a database that is down fails only the requests of its stores, with a 503 that names it', async () => {
  first.close();
  const refused = await publish(inFirst, 1_000);
  assert.equal(refused.status, 503);
  assert.match(
    messageOf(refused),
    /number 1, with the shards 85-169\) is not available; stores in other databases are not affected/,
  );
  assert.equal((await call('GET', `/stores/${inFirst}/webhooks`)).status, 503);
  await published(inHome);
  await published(inSecond);
  assert.equal((await call('GET', `/stores/${inSecond}/webhooks`)).status, 200);
  const ready = await fetch(`${app.baseUrl}/health/ready`);
  assert.equal(ready.status, 200);
  first.open();
  await untilBack(inFirst);
});

test('while a database is down, the log grows with the reasons, and not with the requests', async () => {
  first.close();
  await until(
    () => publish(inFirst, 1_000),
    ({ status }) => status === 503,
  );
  saidBytes = 0;
  const publishing = Array.from({ length: 500 }, async (_, n) => (await publish(inFirst, 1_000 + n)).status);
  assert.deepEqual(new Set(await Promise.all(publishing)), new Set([503]));
  // With one line and its stack for each request, 500 KB.
  assert.ok(saidBytes < 50_000, `${saidBytes} bytes`);
  const reasons = said.flatMap(({ msg, database, err }) =>
    err === undefined ? [] : [`${msg} ${database} ${err.code}`],
  );
  assert.deepEqual(reasons, [...new Set(reasons)]);
  first.open();
  await untilBack(inFirst);
});

test('a change of the home database waits for a database that is down, and is applied when it returns', async () => {
  first.close();
  const domain = 'meanwhile.example.com';
  for (const id of [inFirst, inSecond])
    assert.equal((await call('PATCH', `/stores/${id}`, { ...platform, body: { domain } })).status, 200);
  assert.equal((await published(inSecond)).headers['service-store-domain'], domain);
  first.open();
  await until(
    async () => (await divided.home`select from outbox`).length,
    (waiting) => waiting === 0,
  );
  await untilBack(inFirst);
  assert.equal((await published(inFirst)).headers['service-store-domain'], domain);
});

test('without the home database, stores in others are used with tokens that were checked before, and no new token', async () => {
  ofHome.close();
  await published(inSecond);
  const other = await publish(inSecond, 2_000, { token: `hal_at_${'a'.repeat(43)}` });
  assert.equal(other.status, 503);
  assert.equal((await publish(inHome, 2_001)).status, 503);
  ofHome.open();
  await untilBack(inHome);
  second.close();
  second.open();
  await untilBack(inSecond);
});

test('a home database that does not respond delays requests with known tokens for a few seconds only', async () => {
  await published(inSecond);
  said.length = 0;
  ofHome.vanish();
  // Requests before that wait for its response.
  await until(
    async () => said,
    (lines) => lines.some(({ msg, database }) => database === HOME && msg.startsWith('database does not respond')),
  );
  await published(inSecond);
  ofHome.cut();
  await untilBack(inHome);
});

test('a database that has a new address in the map is used there by a running process', async () => {
  first.close();
  const { databases } = await readMap(divided.home);
  const database = databases.find(({ id }) => id === 1) ?? assert.fail();
  const url = urlOf(addresses[0] ?? assert.fail());
  await replaceAddresses(divided.home, [{ ...database, url }], createSealer(divided.secretKey));
  const status = async () => (await publish(inFirst, (events += 1))).status;
  assert.equal(await until(status, (one) => one !== 503), 201);
  await published(inFirst);
});
