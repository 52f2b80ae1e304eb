/** Webhooks whose pending deliveries are gone or whose notification was lost are still reconciled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHARDS } from '#core/ids.ts';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

async function webhookOf({ sql }: Engine, id: number) {
  const [row] = await sql<{ isActive: boolean; epoch: number; entries: number }[]>`
    select is_active as "isActive", epoch, (select count(*) from event where resource_type = 'changelog') as entries
    from webhook where id = ${id}`;
  return { ...row };
}

async function deliveriesOf({ sql }: Engine) {
  const [row] = await sql<{ pending: number; failed: number; successful: number }[]>`
    select (select count(*) from delivery) as pending, count(*) filter (where state = 'failed') as failed,
      count(*) filter (where state = 'successful') as successful
    from delivery_done`;
  return { ...row };
}

test('a pending disable without deliveries is completed by the next owner if the one before crashed', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(410).end());
  const webhookId = await engine.addWebhook(receiver.url);
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: never } = Promise.withResolvers<boolean>();
  const disableWebhook = () => {
    begin();
    return never;
  };
  const first = await engine.startWorker({}, { disableWebhook });
  await engine.publish([1], first);
  // The worker is frozen in the transaction that disables the webhook; the database ends that transaction.
  await begun;
  await first.stop();
  const terminated = () => sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and state = 'idle in transaction'`;
  await until(terminated, ({ length }) => length === 1);
  assert.deepEqual(await deliveriesOf(engine), { pending: 0, failed: 1, successful: 0 });
  assert.deepEqual(await webhookOf(engine, webhookId), { isActive: true, epoch: 0, entries: 0 });

  const next = await engine.startWorker();
  await until(
    () => webhookOf(engine, webhookId),
    ({ isActive }) => isActive === false,
  );
  next.rediscover();
  await next.stop();
  assert.deepEqual(await webhookOf(engine, webhookId), { isActive: false, epoch: 1, entries: 1 });
  assert.equal(receiver.got.length, 1);
});

test('a busy lane stops after a disable whose notification was lost, at the next reconcile', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  receiver.answer((_got, response) => void answered.then(() => response.writeHead(204).end()));
  const webhookId = await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  await engine.publish([1, 2, 3], worker);
  await receiver.until(1);
  await engine.sql`
    update webhook set is_active = false, epoch = epoch + 1, revision = revision + 1 where id = ${webhookId}`;
  worker.rediscover();
  await until(
    () => deliveriesOf(engine),
    ({ pending }) => pending === 1,
  );
  answer();
  await until(
    () => deliveriesOf(engine),
    ({ pending }) => pending === 0,
  );
  assert.deepEqual(await deliveriesOf(engine), { pending: 0, failed: 2, successful: 1 });
  assert.equal(receiver.got.length, 1);
});

test('a delivery whose COMMIT had an unknown result is sent in turn, also by a busy lane', async (t) => {
  // No round comes, which would find it after 30 s.
  t.mock.timers.enable({ apis: ['setInterval'] });
  const engine = await startEngine();
  const { sql } = engine;
  const receiver = await startReceiver();
  await engine.addWebhook(receiver.url);
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  receiver.answer((_got, response) => void answered.then(() => response.writeHead(204).end()));
  const worker = await engine.startWorker({ slotsPerLane: 1 });
  await engine.publish([1, 2], worker);
  await receiver.until(1);
  // As a commit leaves it that was neither handed over nor announced.
  await sql`
    insert into delivery select (jsonb_populate_record(last, jsonb_build_object('id', id + ${SHARDS}))).*
    from delivery as last order by id desc limit 1`;
  worker.rediscover();
  answer();
  await receiver.until(3);
});
