/**
 * A process that is frozen in a transaction keeps the row of one resource locked. Publishing to the store of that resource fails with a
 * 503 that says so; publishing to all other stores is as fast as before.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { createStore } from '#stores/store.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { until } from '../setup/until.ts';

const STORES = 40;
const REQUESTS = 400;
const AT_ONCE = 16;
/** The quietest of these pairs counts: other programs may use the machine. */
const PAIRS_MIN = 3;
const PAIRS_MAX = 20;

const fixture = await openPublishFixture(['serve']);
const { sql, app, ask, storeId } = fixture;
const { origin } = await fixture.start();
const stores: number[] = [];
for (let n = 0; n < STORES; n += 1) {
  const details = { name: 'Shop', domain: `other${n}.example.com`, email: 'a@example.com', timeZone: 'UTC' };
  stores.push((await createStore(sql, { ...details, now: new Date() })).id);
}

let published = 0;
async function publish(store: number, id = (published += 1)) {
  const body = { event: 'customer/modified', resource: { id } };
  const startedAt = performance.now();
  const response = await ask(origin, 'POST', `/stores/${store}/events`, { token: app.platformToken, body });
  const text = await response.text();
  return {
    status: response.status,
    text,
    retryAfter: response.headers.get('retry-after'),
    ms: performance.now() - startedAt,
  };
}

/** Milliseconds below which 95 % of the publishes to the other stores are answered. */
async function p95(): Promise<number> {
  const times: number[] = [];
  let next = 0;
  const client = async () => {
    for (; next < REQUESTS;) {
      const { status, text, ms } = await publish(stores[(next += 1) % STORES] ?? 0);
      assert.equal(status, 201, text);
      times.push(ms);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * 0.95)] ?? Number.NaN;
}

/** Another PostgreSQL client, stopped in the middle of its transaction. */
async function freezeHolder(id: number) {
  const holder = spawn(process.execPath, [`${import.meta.dirname}/locked-row/holder.ts`], {
    env: { ...process.env, ADDRESS: JSON.stringify(fixture.address), STORE: String(storeId), RESOURCE: String(id) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(holder.stdout, 'data');
  holder.kill('SIGSTOP');
  return async () => {
    holder.kill('SIGKILL');
    await once(holder, 'exit');
  };
}

test('a row that a frozen process has locked delays only its own store', async (t) => {
  const { status } = await publish(storeId, 1);
  assert.equal(status, 201);
  await p95();
  let [free, locked] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  const isUnaffected = (): boolean => locked < free * 1.1 + 2;
  for (let pair = 0; pair < PAIRS_MIN || (pair < PAIRS_MAX && !isUnaffected()); pair += 1) {
    free = Math.min(free, await p95());
    const release = await freezeHolder(1);
    const refused = publish(storeId, 1);
    await until(
      () => waitingForLocks(sql),
      (count) => count > 0,
    );
    locked = Math.min(locked, await p95());
    const { status: answered, text, retryAfter, ms } = await refused;
    assert.deepEqual([answered, retryAfter], [503, '1'], text);
    t.diagnostic(`the store of the row: 503 after ${ms.toFixed(0)} ms`);
    await release();
  }
  t.diagnostic(`p95 of the other stores: ${free.toFixed(1)} ms, with the locked row ${locked.toFixed(1)} ms`);
  assert.ok(isUnaffected(), `${locked} ms instead of ${free}`);
  assert.equal((await publish(storeId, 1)).status, 201);
});
