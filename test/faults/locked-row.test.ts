/**
 * A process that is frozen in a transaction holds the row of one resource locked. Publishing to the store of that resource fails with a
 * 503 that says so; publishing to all other stores goes on as fast as before.
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
const PAIRS = 5;

const fixture = await openPublishFixture(['serve']);
const { sql, app, ask, storeId } = fixture;
const { origin } = await fixture.start();
const stores: number[] = [];
for (let n = 0; n < STORES; n += 1) {
  const details = { name: 'Shop', domain: `other${n}.example.com`, email: 'a@example.com', timeZone: 'UTC' };
  stores.push((await createStore(sql, { ...details, now: new Date() })).id);
}

let published = 0;
const publish = async (store: number, id = (published += 1)) => {
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
};

/** Milliseconds below which 95 % of the publishes to the other stores are answered. */
const p95 = async (): Promise<number> => {
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
};

/** Another program of PostgreSQL's own, stopped in the middle of its transaction. */
const freezeHolder = async (id: number) => {
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
};

test('a row that a frozen process has locked delays its own store only', async (t) => {
  const { status } = await publish(storeId, 1);
  assert.equal(status, 201);
  await p95();
  const times = { free: [] as number[], locked: [] as number[] };
  for (let pair = 0; pair < PAIRS; pair += 1) {
    times.free.push(await p95());
    const release = await freezeHolder(1);
    const refused = publish(storeId, 1);
    await until(
      () => waitingForLocks(sql),
      (count) => count > 0,
    );
    times.locked.push(await p95());
    const { status: answered, text, retryAfter, ms } = await refused;
    assert.deepEqual([answered, retryAfter], [503, '1'], text);
    t.diagnostic(`the store of the row: 503 after ${ms.toFixed(0)} ms`);
    await release();
  }
  const [free, locked] = [Math.min(...times.free), Math.min(...times.locked)];
  t.diagnostic(`p95 of the other stores: ${free.toFixed(1)} ms, with the locked row ${locked.toFixed(1)} ms`);
  assert.ok(locked < free * 1.1 + 2, `${locked} ms instead of ${free}`);
  assert.equal((await publish(storeId, 1)).status, 201);
});
