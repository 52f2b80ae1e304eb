/** Daily snapshots with concurrency: publishes, other processes, and the leftovers of a crashed process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advanceBook, closeDay } from '#events/revenue-sql.ts';
import { publishSnapshot } from '#events/snapshots.ts';
import { shardOf } from '#core/ids.ts';
import { startTestApp } from '../setup/app.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startReceiver } from '../setup/receiver.ts';
import { euros, snapshotsOf, startRevenue } from '../setup/revenue.ts';
import { until } from '../setup/until.ts';

const revenue = await startRevenue();
const { addStore, publish, round, sql } = revenue;

const sumsOf = async (storeId: number): Promise<string[]> =>
  (await snapshotsOf(revenue, storeId)).map(({ date, currencies: [one] }) => `${date} ${one?.mrr ?? 0}`);

/** Locks the book as a publish does, until `end` is called. */
async function holdBook(storeId: number, how: 'share' | 'update') {
  const held = await sql.reserve();
  await held`begin`;
  const shard = shardOf(storeId);
  if (how === 'share') await held`select from revenue_book where shard = ${shard} and store_id = ${storeId} for share`;
  else await held`select from revenue_book where shard = ${shard} and store_id = ${storeId} for update`;
  return {
    held,
    end: async () => {
      await held`commit`;
      held.release();
    },
  };
}
const someWait = (count: number) =>
  until(
    () => waitingForLocks(sql),
    (waiting) => waiting >= count,
  );

test('two processes that report a day at the same moment report it once', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-02-01T10:00:00Z', euros('a', 10));
  revenue.at('2027-02-02T00:10:00Z');
  const book = { shard: shardOf(store), storeId: store, day: '2027-02-01', timeZone: 'UTC' };
  const { end } = await holdBook(store, 'update');
  const both = Promise.all([publishSnapshot(revenue.deps(), book), publishSnapshot(revenue.deps(), book)]);
  await someWait(2);
  await end();
  assert.deepEqual((await both).toSorted(), [false, true]);
  assert.deepEqual(await sumsOf(store), ['2027-02-01 10']);
});

test('a second snapshot of a day is rejected by the database', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-02-01T10:00:00Z', euros('a', 10));
  await round(store, '2027-02-02T00:10:00Z');
  await sql`update revenue_book set next_day = '2027-02-01', due_at = '2027-02-01' where store_id = ${store}`;
  assert.equal(await round(store, '2027-02-02T00:11:00Z'), 0);
  assert.deepEqual(await sumsOf(store), ['2027-02-01 10']);
});

test('a publish that is in progress when its day ends belongs to it', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-02-01T10:00:00Z', euros('a', 10));
  const { held, end } = await holdBook(store, 'share');
  const reported = round(store, '2027-02-02T00:10:00Z');
  await someWait(1);
  await held`
    insert into subscription_term (shard, store_id, subscription_id, day, currency, monthly, is_active)
    values (${shardOf(store)}, ${store}, 'late', '2027-02-01', 'EUR', 5, true)`;
  await end();
  assert.equal(await reported, 1);
  assert.deepEqual(await sumsOf(store), ['2027-02-01 15']);
});

test('a publish that races the closing of its day belongs to the next day', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-02-01T10:00:00Z', euros('a', 10));
  const { held, end } = await holdBook(store, 'update');
  const book = { shard: shardOf(store), storeId: store, day: '2027-02-01', timeZone: 'UTC' };
  assert.equal(await closeDay(held, book, new Date('2027-02-02T00:10:00Z')), true);
  const late = publish(store, '2027-02-01T23:59:59Z', euros('a', 20));
  await someWait(1);
  await end();
  await late;
  await round(store, '2027-02-03T00:10:00Z');
  assert.deepEqual(await sumsOf(store), ['2027-02-01 10', '2027-02-02 20']);
});

test('a day is not closed or passed by a time zone that its store has left', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-02-01T10:00:00Z', euros('a', 10));
  const book = { shard: shardOf(store), storeId: store, day: '2027-02-01', timeZone: 'UTC' };
  await revenue.moveStore(store, 'Pacific/Honolulu');
  assert.equal(await closeDay(sql, book, new Date('2027-02-02T00:10:00Z')), false);
  assert.equal(await advanceBook(sql, book), false);
});

test('a day closed by a process that crashed is reported by the next process', async () => {
  const store = await addStore('UTC');
  await publish(store, '2027-02-01T10:00:00Z', euros('a', 10));
  const book = { shard: shardOf(store), storeId: store, day: '2027-02-01', timeZone: 'UTC' };
  assert.equal(await closeDay(sql, book, new Date('2027-02-02T00:10:00Z')), true);
  await publish(store, '2027-02-01T23:59:59Z', euros('a', 20));
  assert.equal(await round(store, '2027-02-03T00:10:00Z'), 2);
  assert.deepEqual(await sumsOf(store), ['2027-02-01 10', '2027-02-02 20']);
});

test('a store whose revenue_book row is locked for long delays no other, and is reported later', async () => {
  const [store, other] = [await addStore('UTC'), await addStore('UTC')];
  for (const one of [store, other]) await publish(one, '2027-02-01T10:00:00Z', euros('a', 10));
  const settings = { ...revenue.settings, statementMs: 50 };
  const shards = () => [shardOf(store), shardOf(other)];
  const { end } = await holdBook(store, 'share');
  // The limit holds for the other store, too, which one round may therefore leave out.
  await until(
    () => round(store, '2027-02-02T00:10:00Z', { settings, shards }),
    (reported) => reported === 1,
  );
  await end();
  assert.deepEqual([await sumsOf(store), await sumsOf(other)], [[], ['2027-02-01 10']]);
  assert.equal(await round(store, '2027-02-02T00:11:00Z'), 1);
  assert.deepEqual(await sumsOf(store), ['2027-02-01 10']);
});

test('a webhook is sent the snapshot, by the process that delivers', async () => {
  const receiver = await startReceiver();
  const app = await startTestApp({ env: { SNAPSHOT_CHECK_MS: '20' } });
  const { api, storeId, platformToken: token } = app;
  const hook = {
    name: 'Revenue',
    format: 'json',
    encryption_key: 'a key',
    url: receiver.url,
    event_resource: 'subscription_mrr_snapshot',
  };
  assert.equal((await api('POST', `/stores/${storeId}/webhooks`, { body: hook })).status, 201);
  const body = { event: 'subscription/created', resource: euros('a', '19.99') };
  assert.equal((await api('POST', `/stores/${storeId}/events`, { token, body })).status, 201);
  app.clock.advance(24.2 * 3_600_000);
  await receiver.until(1);
  const sent = JSON.parse(receiver.got[0]?.body.toString() ?? '') as Record<string, unknown>;
  assert.deepEqual(sent['currencies'], [
    {
      currency_code: 'EUR',
      mrr: 19.99,
      active_count: 1,
      new: 19.99,
      expansion: 0,
      contraction: 0,
      churn: 0,
      reactivation: 0,
    },
  ]);
  const [day] = await app.sql<{ day: string; id: string }[]>`select day::text, resource_id as id from revenue_day`;
  assert.deepEqual([sent['date'], String(sent['id'])], [day?.day, day?.id]);
});
