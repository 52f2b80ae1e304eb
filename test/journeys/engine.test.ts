import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Webhook } from 'standardwebhooks';
import { shardOf } from '#core/ids.ts';
import { COMPLETE_STOP, KEY, startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const range = (count: number, from = 1): number[] => Array.from({ length: count }, (_, index) => from + index);
const idsOf = (got: readonly Got[]): number[] =>
  got.map(({ body }) => (JSON.parse(body.toString()) as { id: number }).id).toSorted((a, b) => a - b);

async function countsOf({ sql }: Engine) {
  const [counts] = await sql<{ pending: number; successful: number; failed: number; attempts: number }[]>`
    select (select count(*) from delivery) as pending,
      (select count(*) from delivery_done where state = 'successful') as successful,
      (select count(*) from delivery_done where state = 'failed') as failed,
      (select count(*) from attempt_log where outcome is not null) as attempts`;
  if (counts === undefined) throw new Error('no row');
  return counts;
}

test('an event is delivered once, signed in both ways, and recorded', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(`${receiver.url}/hook`, { query: 'zoom=items' });
  const worker = await engine.startWorker();
  const [event] = await engine.publish([7], worker);
  await receiver.until(1);
  const [got] = receiver.got;
  assert.ok(got !== undefined && event !== undefined);
  const representation = JSON.parse(got.body.toString()) as Record<string, unknown>;
  assert.equal(representation['id'], 7);
  assert.deepEqual(representation['_embedded'], { 'svc:items': [{ name: 'Brush', price: 9.5 }] });

  const headers = got.headers as Record<string, string>;
  assert.equal(headers['content-type'], 'application/hal+json');
  assert.equal(headers['service-webhook-event'], 'transaction/created');
  assert.equal(headers['service-webhook-refeed'], 'false');
  assert.equal(headers['service-webhook-attempt'], '1');
  assert.equal(headers['service-webhook-resource-version'], '1');
  assert.equal(headers['service-store-id'], String(engine.storeId));
  assert.equal(headers['service-store-domain'], 'store.example.com');
  assert.equal(headers['service-webhook-signature'], createHmac('sha256', KEY).update(got.body).digest('hex'));
  new Webhook(KEY).verify(got.body.toString(), headers);

  const counts = await until(
    () => countsOf(engine),
    ({ pending }) => pending === 0,
  );
  assert.deepEqual(counts, { pending: 0, successful: 1, failed: 0, attempts: 1 });
  const [attempt] = await engine.sql`select webhook_id, event_id, outcome, response_code from attempt_log`;
  assert.deepEqual(
    { ...attempt },
    { webhook_id: webhookId, event_id: event.id, outcome: 'delivered', response_code: 204 },
  );
});

test('more deliveries than a lane holds are all sent, each once', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker({ laneQueue: 20 });
  for (let batch = 0; batch < 5; batch += 1) await engine.publish(range(200, batch * 200), worker);
  await until(
    () => countsOf(engine),
    ({ pending }) => pending === 0,
  );
  assert.deepEqual(idsOf(receiver.got), range(1_000, 0));
});

test('a delivery that was committed while no worker ran is found in the table', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  await engine.addWebhook(receiver.url);
  await engine.publish(range(100));
  await engine.startWorker();
  await receiver.until(100);
  assert.deepEqual(idsOf(receiver.got), range(100));
});

test('an event that another process publishes is announced to the owner of the shard', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  // The worker owns its shards once it has sent a delivery.
  await engine.publish([1], worker);
  await receiver.until(1);
  await engine.publish(range(30, 2));
  await receiver.until(31);
  assert.deepEqual(idsOf(receiver.got), range(31));
});

test('a failed attempt is retried when it is due, with the same webhook-id and the next number', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(receiver.got.length < 3 ? 500 : 200).end());
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  await engine.publish([1], worker);
  for (const [attempts, minutes] of [
    [1, 1],
    [2, 1],
  ] as const) {
    await until(
      () => countsOf(engine),
      (counts) => counts.attempts === attempts,
    );
    engine.clock.advance(minutes * 60_000 + 1_000);
    await receiver.until(attempts + 1);
  }
  await until(
    () => countsOf(engine),
    ({ successful }) => successful === 1,
  );
  assert.equal(new Set(receiver.got.map(({ headers }) => headers['webhook-id'])).size, 1);
  assert.deepEqual(
    receiver.got.map(({ headers }) => headers['service-webhook-attempt']),
    ['1', '2', '3'],
  );
  const [state] = await engine.sql`select consecutive_failures, first_failure_at from webhook_state`;
  assert.deepEqual({ ...state }, { consecutive_failures: 0, first_failure_at: null });
});

test('Retry-After pauses the webhook: no other delivery is sent to it meanwhile', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(503, { 'retry-after': '600' }).end());
  const busy = await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  await engine.publish([1], worker);
  await until(
    () => countsOf(engine),
    ({ attempts }) => attempts === 1,
  );
  const other = await startReceiver();
  await engine.addWebhook(other.url);
  await engine.publish([2], worker);
  await other.until(1);
  assert.equal(receiver.got.length, 1);
  const [state] = await engine.sql`
    select consecutive_failures, paused_until > now() as paused from webhook_state where webhook_id = ${busy}`;
  assert.deepEqual({ ...state }, { consecutive_failures: 0, paused: true });
  receiver.answer((_got, response) => response.writeHead(200).end());
  engine.clock.advance(601_000);
  await receiver.until(3);
});

test('a disable ends the pending deliveries, and nothing more is sent', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  receiver.answer((_got, response) => response.writeHead(500).end());
  const worker = await engine.startWorker();
  await engine.publish(range(10), worker);
  await until(
    () => countsOf(engine),
    ({ attempts }) => attempts === 5,
  );
  await engine.sql`update webhook set is_active = false, epoch = epoch + 1 where id = ${webhookId}`;
  worker.webhookChanged({ shard: shardOf(webhookId), webhookId });
  const counts = await until(
    () => countsOf(engine),
    ({ pending }) => pending === 0,
  );
  assert.deepEqual(counts, { pending: 0, successful: 0, failed: 10, attempts: 5 });
});

test('deliveries that were pending before a disable are not sent after an enable', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  await engine.publish([1, 2]);
  await engine.sql`update webhook set epoch = epoch + 1 where id = ${webhookId}`;
  const worker = await engine.startWorker();
  await engine.publish([3], worker);
  const counts = await until(
    () => countsOf(engine),
    ({ pending }) => pending === 0,
  );
  assert.deepEqual(counts, { pending: 0, successful: 1, failed: 2, attempts: 1 });
  assert.deepEqual(idsOf(receiver.got), [3]);
});

test('disabling and enabling a webhook resets the count of failures', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  receiver.answer((_got, response) => response.writeHead(500).end());
  const worker = await engine.startWorker();
  await engine.publish([1, 2, 3], worker);
  await until(
    () => countsOf(engine),
    ({ attempts }) => attempts === 3,
  );
  await engine.sql`update webhook set epoch = epoch + 1 where id = ${webhookId}`;
  worker.webhookChanged({ shard: shardOf(webhookId), webhookId });
  await engine.publish([4], worker);
  await until(
    () => countsOf(engine),
    ({ attempts }) => attempts === 4,
  );
  const [state] = await engine.sql`select epoch, consecutive_failures from webhook_state`;
  assert.deepEqual({ ...state }, { epoch: 1, consecutive_failures: 1 });
});

test('a webhook that cannot be used delays no other', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const broken = await engine.addWebhook(`${receiver.url}/broken`);
  await engine.addWebhook(`${receiver.url}/sound`);
  await engine.sql`update webhook set encryption_key = 'sealed with another key' where id = ${broken}`;
  await engine.publish(range(5));
  await engine.startWorker();
  await until(
    () => countsOf(engine),
    ({ successful }) => successful === 5,
  );
  assert.deepEqual(new Set(receiver.got.map(({ path }) => path)), new Set(['/sound']));
  assert.equal((await countsOf(engine)).pending, 5, 'its deliveries wait until it can be used');
});

test('a stop waits for the attempts in flight and records them', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const answers: (() => void)[] = [];
  receiver.answer((_got, response) => void answers.push(() => response.writeHead(200).end()));
  await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker({ stopping: COMPLETE_STOP });
  await engine.publish([1], worker);
  await receiver.until(1);
  const stopped = worker.stop();
  for (const answer of answers) answer();
  await stopped;
  assert.equal((await countsOf(engine)).successful, 1);
  const leases = await engine.sql`select distinct owner from shard_lease`;
  assert.deepEqual(
    leases.map(({ owner }) => owner),
    [null],
  );
});
