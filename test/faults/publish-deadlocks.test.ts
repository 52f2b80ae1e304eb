/** Two processes publish the same in opposite orders at once: all is published, without a deadlock in PostgreSQL. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitingForLocks } from '../setup/locks.ts';
import { openPublishFixture } from '../setup/publish-fixture.ts';
import { until } from '../setup/until.ts';

const CROSSINGS = 20;
/** Long enough that two crossing requests run at the same time. */
const EVENTS = 300;

const fixture = await openPublishFixture();

/** Sends each array to one process and reversed to the other, and waits for both. */
async function cross(arrayOf: (round: number) => object[]) {
  const servers = await Promise.all([fixture.start(), fixture.start()]);
  const answers: { status: number; ids: number[] }[][] = [];
  for (let round = 0; round < CROSSINGS; round += 1) {
    const array = arrayOf(round);
    const sent = servers.map(async ({ origin }, n) => {
      const { status, events } = await fixture.publish(origin, n === 0 ? array : array.toReversed());
      return { status, ids: events.map(({ id }) => id) };
    });
    answers.push(await Promise.all(sent));
  }
  return { answers, deadlocks: await fixture.runCleanups(servers) };
}

const places = Array.from({ length: EVENTS }, (_, n) => n);
const created = (id: string, key?: string) => ({
  event: 'transaction/created',
  resource: { id },
  ...(key !== undefined && { idempotency_key: key }),
});

test('arrays with the same keys in opposite orders in two processes all get the same events, without a deadlock', async () => {
  const { answers, deadlocks } = await cross((round) => places.map((n) => created(`k${round}-${n}`, `k${round}-${n}`)));
  for (const [one, other] of answers) {
    assert.deepEqual([one?.status, other?.status], [200, 200]);
    assert.deepEqual(one?.ids, other?.ids.toReversed());
  }
  assert.equal(deadlocks, 0);
});

test('arrays with the same resources in opposite orders in two processes are all published, without a deadlock', async () => {
  const { answers, deadlocks } = await cross((round) => places.map((n) => created(`r${round}-${n}`)));
  assert.deepEqual(
    answers.flat().map(({ status }) => status),
    Array.from({ length: 2 * CROSSINGS }, () => 200),
  );
  assert.equal(deadlocks, 0);
});

test('two requests with the same keys in opposite orders lock them in one order', async () => {
  const servers = await Promise.all([fixture.start(), fixture.start()]);
  const array = ['a', 'm', 'z'].map((name) => created(`order-${name}`, `order-${name}`));
  const holder = await fixture.sql.reserve();
  await holder`begin`;
  // The lock on the key in the middle stops both when each has taken its first.
  await holder`
    insert into publish_key (shard, store_id, key, fingerprint, event_ids, date_created)
    values (${fixture.storeId % 256}, ${fixture.storeId}, 'order-m', ${Buffer.alloc(32)}, array[1], now())`;
  const sent = servers.map(({ origin }, n) => fixture.publish(origin, n === 0 ? array : array.toReversed()));
  await until(
    () => waitingForLocks(fixture.sql),
    (waiting) => waiting === 2,
  );
  await holder`rollback`;
  holder.release();
  assert.deepEqual(
    (await Promise.all(sent)).map(({ status }) => status),
    [200, 200],
  );
  assert.equal(await fixture.runCleanups(servers), 0);
});
