/** A shard that a worker loses, hands back or no longer confirms, and that the same worker owns again before that is complete. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import type { Sql } from '#db/pool.ts';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { standingClock } from '../setup/clock.ts';
import { waitingForLocks } from '../setup/locks.ts';

const pendingOf = async ({ sql }: Engine): Promise<number | undefined> =>
  (await sql<{ n: number }[]>`select count(*) as n from delivery`)[0]?.n;

// Shards that return

test('a delivery that waited for its event while its shard was lost is sent by the current owner, and not twice', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  const shard = shardOf(webhookId);
  // No event is kept in memory, and nothing is sent before the pause has ended.
  const worker = await engine.startWorker({ bodyCacheBytes: 1 });
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, paused_until)
    values (${shard}, ${webhookId}, 0, 0, ${new Date(engine.clock.now().getTime() + 60_000)})`;
  await until(
    async () => worker.ownedShards(),
    (shards) => shards.includes(shard),
  );
  await engine.publish([1], worker);
  const locked = await sql.reserve();
  await locked`begin`;
  await locked`lock table event in access exclusive mode`;
  engine.clock.advance(61_000);
  const waiting = (count: number) =>
    until(
      () => sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      ({ length }) => length >= count,
    );
  await waiting(1);
  await sql`update shard_lease set fence = fence + 1 where shard = ${shard}`;
  await waiting(2);
  await locked`commit`;
  locked.release();
  await until(
    () => pendingOf(engine),
    (count) => count === 0,
  );
  assert.equal(receiver.got.length, 1);
});

test('a webhook that was enabled while its shard was being handed back receives deliveries from the worker that keeps the shard', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const receiver = await startReceiver();
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  receiver.answer(({ path }, response) => {
    void (path === '/held' ? answered : Promise.resolve()).then(() => response.writeHead(204).end());
  });
  // A running attempt keeps its shard from being handed back.
  const shard = shardOf(await engine.addWebhook(`${receiver.url}/held`));
  const webhookId = await engine.addWebhook(`${receiver.url}/on`, { isActive: false });
  const worker = await engine.startWorker();
  const owns = async () => worker.ownedShards().includes(shard);
  await until(owns, Boolean);
  // Jobs that are idle look for work after each change.
  let { changes } = worker;
  assert.ok(changes > 0, 'shards were taken');
  // From here on its lane knows that the webhook is disabled.
  worker.webhookChanged({ shard, webhookId });
  assert.ok(worker.changes > changes, 'a webhook has changed');
  await engine.publish([1], worker);
  await receiver.until(1);
  // The hand-back waits for a lock of the test, and fails.
  await sql.unsafe(`
    create function refuses() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(7); raise exception 'it stays'; end $$;
    create trigger refuses before update on shard_lease for each row when (new.owner is null)
      execute function refuses()`);
  const gate = await sql.reserve();
  await gate`select pg_advisory_lock(7)`;
  // More workers than shards, so that this one has no share.
  await sql`insert into worker (id, beat, date_started) select n, 1, now() from generate_series(1, 300) as n`;
  await until(owns, (isOwned) => !isOwned);
  await sql`update webhook set is_active = true, revision = revision + 1 where id = ${webhookId}`;
  worker.webhookChanged({ shard, webhookId });
  assert.equal(await owns(), false, 'the notification was ignored');
  ({ changes } = worker);
  await sql`delete from worker where id <= 300`;
  await gate`select pg_advisory_unlock(7)`;
  gate.release();
  await until(owns, Boolean);
  assert.ok(worker.changes > changes, 'shards are owned again');
  await engine.publish([2], worker);
  await until(
    async () => receiver.got.map(({ path }) => path),
    (paths) => paths.includes('/on'),
  );
  await sql`drop trigger refuses on shard_lease`;
  answer();
  await until(
    () => pendingOf(engine),
    (count) => count === 0,
  );
});

// Leases that lapse

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
