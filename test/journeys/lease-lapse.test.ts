/** A worker whose heartbeat is not confirmed for longer than its lease, while no other worker is there to take its shards. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sql } from '#db/pool.ts';
import { shardOf } from '#core/ids.ts';
import { standingClock } from '../setup/clock.ts';
import { startEngine } from '../setup/engine.ts';
import { waitingForLocks } from '../setup/locks.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const lease = { leaseMs: 10_000, leaseMarginMs: 2_500, beatMs: 100 };

type Worker = { ownedShards: () => number[] };

const owning = (worker: Worker, count: number) =>
  until(
    async () => worker.ownedShards().length,
    (owned) => owned === count,
  );

async function hold(sql: Sql, lock: (on: Awaited<ReturnType<Sql['reserve']>>) => Promise<unknown>) {
  const holder = await sql.reserve();
  await holder`begin`;
  await lock(holder);
  return async (): Promise<void> => {
    await holder`rollback`;
    holder.release();
  };
}

for (const first of ['the record', 'the heartbeat'] as const)
  test(`outcomes that are unrecorded during a lapse of the lease are recorded after it (${first} continues first)`, async () => {
    const engine = await startEngine();
    const { sql } = engine;
    const receiver = await startReceiver();
    const webhookId = await engine.addWebhook(receiver.url);
    const leaseClock = standingClock();
    const worker = await engine.startWorker(lease, { leaseClock });
    await owning(worker, 256);
    // The first outcome waits for the row of its shard, and the second for the first.
    const record = await hold(sql, (on) => on`select from shard_lease where shard = ${shardOf(webhookId)} for update`);
    await engine.publish([1], worker);
    await receiver.until(1);
    // Otherwise one statement may record both.
    await until(
      () => waitingForLocks(sql),
      (waiting) => waiting === 1,
    );
    await engine.publish([2], worker);
    await receiver.until(2);
    const heartbeat = await hold(sql, (on) => on`select from worker for update`);
    leaseClock.advance(lease.leaseMs - lease.leaseMarginMs);
    await owning(worker, 0);
    if (first === 'the heartbeat') {
      await heartbeat();
      // All but the shard whose outcomes are unrecorded.
      const owned = await until(
        async () => worker.ownedShards(),
        ({ length }) => length >= 255,
      );
      assert.ok(!owned.includes(shardOf(webhookId)));
    }
    await record();
    if (first === 'the record') {
      await until(
        () => sql`select from delivery_done`,
        ({ length }) => length >= 1,
      );
      await heartbeat();
    }
    await owning(worker, 256);
    const ended = () => sql<{ state: string; attempts: number }[]>`select state, attempts from delivery_done`;
    const found = await until(ended, ({ length }) => length === 2);
    assert.deepEqual(
      [...found],
      Array.from({ length: 2 }, () => ({ state: 'successful', attempts: 1 })),
    );
    assert.equal(receiver.got.length, 2);
    await worker.stop();
  });
