/** A shard that is lost or being handed back, and that the same worker owns again before that is complete. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';
import { shardOf } from '#core/ids.ts';

const pendingOf = async ({ sql }: Engine): Promise<number | undefined> =>
  (await sql<{ n: number }[]>`select count(*) as n from delivery`)[0]?.n;

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
