/** Deliveries that another process of the same supervisor has committed and hands over with their events. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import type { CommittedDelivery } from '#delivery/worker.ts';
import { startEngine } from '../setup/engine.ts';
import { startReceiver } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const engine = await startEngine();
const receiver = await startReceiver();
const webhookId = await engine.addWebhook(receiver.url);
const { storeId, sql, clock } = engine;
const shard = shardOf(storeId);
const worker = await engine.startWorker();
await until(
  async () => worker.ownedShards().length,
  (count) => count === 256,
);
// The first delivery loads the settings of the webhook.
await engine.publish([1], worker);
await receiver.until(1);
const untilRecorded = () =>
  until(
    () => sql`select from delivery`,
    ({ length }) => length === 0,
  );
// While its first delivery is in memory, a scan leaves the later ones of a webhook to the next round.
await untilRecorded();

let n = 1_000_000;

/** Commits a delivery whose event says `total` in the table, and 1 in the message of the other process. */
async function commit(given: { dueAt?: Date; to?: number } = {}): Promise<CommittedDelivery> {
  const { dueAt = clock.now(), to = webhookId } = given;
  const day = dayOf(clock.now());
  const [eventId, id] = [dailyIdOf(day, (n += 1), shard), dailyIdOf(day, (n += 1), shard)];
  const body = (value: number) => JSON.stringify({ id: n, total: value });
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    values (${shard}, ${eventId}, ${storeId}, 'transaction', ${String(n)}, 'created', 1, 1, 'UTC', 'http://localhost',
      ${dueAt}, ${body(2)})`;
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    values (${shard}, ${id}, ${storeId}, ${to}, 0, ${eventId}, ${dueAt})`;
  const type = 'transaction' as const;
  const event = { id: eventId, type, resourceId: String(n), action: 'created', version: 1, traceContext: null };
  return {
    shard,
    delivery: { id, storeId, webhookId: to, epoch: 0, eventId, attempts: 0, faults: 0, dueAt },
    event: { ...event, nonce: 1, baseUrl: 'http://localhost', dateCreated: dueAt, body: body(1), storeId },
  };
}

/** Ends the connection on which the worker listens, and waits until it has noticed that and listens on another one. */
async function replaceListener(): Promise<void> {
  const probed = await startReceiver();
  const probe = await engine.addWebhook(probed.url);
  const listenerOn = async (lastQueries: readonly string[]) => {
    const [listener] = await sql<{ pid: number }[]>`
      select pid from pg_stat_activity
      where datname = current_database() and state = 'idle' and query like any(${lastQueries})`;
    return listener?.pid;
  };
  const pid = await listenerOn(['listen %', 'select 1']);
  await sql`select pg_terminate_backend(${pid ?? 0})`;
  // It listens to the channel of retries last, and a check of an idle connection is 'select 1'.
  await until(
    () => listenerOn(['listen %halcyon_retry%', 'select 1']),
    (other) => other !== undefined && other !== pid,
  );
  // The response to that statement is before this notification in the stream, so it has been handled when the delivery arrives.
  const { delivery } = await commit({ to: probe });
  await sql`select pg_notify('halcyon_work', ${`${shard}:${probe}:${delivery.id}`})`;
  await probed.until(1);
  await untilRecorded();
}

/** Hands the delivery over and returns the total that the receiver gets. */
async function totalOf(committed: CommittedDelivery): Promise<number> {
  const before = receiver.got.length;
  assert.deepEqual(worker.receive([committed]), []);
  await receiver.until(before + 1);
  await untilRecorded();
  assert.equal(receiver.got.length, before + 1);
  return (JSON.parse(receiver.got.at(-1)?.body.toString() ?? '') as { total: number }).total;
}

test('it is sent with the event of the message, without a read of the table', async () => {
  assert.equal(await totalOf(await commit()), 1);
});

test('its event is read from the table if it was erased while the message was under way', async () => {
  const committed = await commit();
  worker.eventsErased([committed.event.id]);
  assert.equal(await totalOf(committed), 2);
});

test('it is read from the table if it is older than the ownership of its shard', async () => {
  assert.equal(await totalOf(await commit({ dueAt: new Date(clock.now().getTime() - 60_000) })), 2);
});

test('it is read from the table if a notification of its erasure may have been missed', async () => {
  const dueAt = clock.now();
  await replaceListener();
  assert.equal(await totalOf(await commit({ dueAt })), 2);
});

test('it is not sent again if the table was read since its commit', async () => {
  const committed = await commit();
  const before = receiver.got.length;
  worker.rediscover();
  await receiver.until(before + 1);
  await untilRecorded();
  assert.deepEqual(worker.receive([committed]), []);
  // What comes later is sent after it.
  await totalOf(await commit());
  assert.equal(receiver.got.length, before + 2);
});

test('it is returned if another worker owns its shard', async () => {
  const committed = await commit();
  await worker.stop();
  assert.deepEqual(worker.receive([committed]), [committed]);
});
