import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { dailyIdOf, dayOf, shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import type { Outcome } from '#delivery/attempt/http/attempt-outcome.ts';
import { HEALTHY, NO_BACKOFF } from '#delivery/policy/policy.ts';
import { decide } from '#delivery/policy/entry.ts';
import { createRecorder } from '#delivery/record/record.ts';
import type { Worker } from '#delivery/worker.ts';
import { startEngine, type Engine } from '../setup/engine.ts';
import { startReceiver, type Got } from '../setup/receiver.ts';
import { until } from '../setup/until.ts';

const HOUR_MS = 3_600_000;
const deactivation = { deactivateAfterFailures: 12, deactivateAfterSeconds: { hour: 3_600, long: 272_105 } };

const range = (count: number, from: number): number[] => Array.from({ length: count }, (_, index) => from + index);
const idOf = ({ body }: Got): number => (JSON.parse(body.toString()) as { id: number }).id;

async function webhookOf({ sql }: Engine, id: number) {
  const [row] = await sql<{ isActive: boolean; epoch: number; revision: number }[]>`
    select is_active as "isActive", epoch, revision from webhook where id = ${id}`;
  if (row === undefined) throw new Error('no webhook');
  return { ...row };
}

async function entriesOf({ sql }: Engine) {
  const rows = await sql<{ body: string }[]>`select body from event where resource_type = 'changelog' order by id`;
  return rows.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
}

async function pendingOf({ sql }: Engine): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*) as n from delivery`;
  return row?.n ?? 0;
}

const attemptsOf = ({ sql }: Engine) => sql<{ at: Date; outcome: string }[]>`
  select date_started as at, outcome from attempt_log where outcome is not null order by date_started, delivery_id`;

const ownerOf = (workers: readonly Worker[], shard: number): Promise<Worker> =>
  until(
    async () => workers.find((worker) => worker.ownedShards().includes(shard)),
    (owner) => owner !== undefined,
  ).then((owner) => owner as Worker);

/** Returns whether failures at these times meet the rule. */
const isMet = (failures: readonly Date[]): boolean =>
  failures.length >= 12 && (failures.at(-1)?.getTime() ?? 0) - (failures[0]?.getTime() ?? 0) >= HOUR_MS;

test('of three workers in succession one disables the webhook, once, at the attempt that meets the rule', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(receiver.url);
  const shard = shardOf(webhookId);
  let isFailing = false;
  receiver.answer((got, response) => response.writeHead(isFailing || idOf(got) % 4 === 0 ? 500 : 200).end());
  const workers = [await engine.startWorker(), await engine.startWorker(), await engine.startWorker()];

  await engine.publish(range(80, 1), await ownerOf(workers, shard));
  await until(
    async () => (await attemptsOf(engine)).length,
    (count) => count >= 80,
  );
  assert.deepEqual(await webhookOf(engine, webhookId), { isActive: true, epoch: 0, revision: 1 });

  isFailing = true;
  await engine.publish(range(40, 101), await ownerOf(workers, shard));
  // Each owner finds its predecessor's breaker open, its probe due, and fails once or a few times more.
  for (let handOver = 0; (await webhookOf(engine, webhookId)).isActive && handOver < 12; handOver += 1) {
    const before = (await attemptsOf(engine)).length;
    engine.clock.advance(20 * 60_000);
    const owner = await ownerOf(workers, shard);
    workers.splice(workers.indexOf(owner), 1, await engine.startWorker());
    await owner.stop();
    await until(
      async () => (await attemptsOf(engine)).length > before || !(await webhookOf(engine, webhookId)).isActive,
      Boolean,
    );
  }
  await until(
    () => pendingOf(engine),
    (count) => count === 0,
  );

  assert.deepEqual(await webhookOf(engine, webhookId), { isActive: false, epoch: 1, revision: 2 });
  const entries = await entriesOf(engine);
  assert.deepEqual(
    entries.map(({ action, actor, resource_id, before, after }) => ({ action, actor, resource_id, before, after })),
    [
      {
        action: 'deactivated',
        actor: 'halcyon',
        resource_id: webhookId,
        before: { is_active: '1', inactive_reason: null },
        after: { is_active: '0', inactive_reason: 'failures' },
      },
    ],
  );
  const attempts = await attemptsOf(engine);
  const failures = attempts
    .slice(attempts.findLastIndex(({ outcome }) => outcome === 'delivered') + 1)
    .map(({ at }) => at);
  assert.ok(isMet(failures), `${failures.length} failures`);
  assert.equal(isMet(failures.slice(0, -1)), false, 'no attempt after it');
  assert.equal(receiver.got.length, attempts.length);
});

test('ten thousand failures within five minutes do not disable a webhook, and a success resets the count', async () => {
  const engine = await startEngine();
  const webhookId = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(webhookId);
  await engine.sql`update shard_lease set owner = 7, fence = 1 where shard = ${shard}`;
  const recorder = createRecorder(
    { sql: engine.sql, clock: systemClock, log: createLog('error') },
    {
      ownership: { workerId: 7, fenceOf: () => 1, lastFenceOf: () => 1, lost: () => {} },
      quarantine: { markers: new Map() },
      lanes: { isOrdered: () => false },
    },
  );
  const reply = { code: 500, headers: '', body: '' };
  const startMs = Date.now();
  let state = {
    health: HEALTHY,
    backoff: NO_BACKOFF,
    isPendingDisable: false,
  };
  const attempt = (n: number, outcome: Outcome, atMs: number): Promise<boolean> => {
    const now = new Date(startMs + atMs);
    const id = dailyIdOf(dayOf(new Date(startMs)), n, shard);
    const pending = {
      id,
      storeId: engine.storeId,
      webhookId,
      epoch: 0,
      eventId: id,
      attempts: 0,
      faults: 0,
      dueAt: now,
    };
    const decision = decide({
      ...state,
      shard,
      fence: 1,
      delivery: pending,
      attempt: { startedAt: now, durationMs: 1, outcome },
      profile: 'hour',
      isProbe: false,
      deactivation,
      moment: { now, nowMs: atMs },
      random: 0,
    });
    state = decision;
    return new Promise<boolean>((resolve) => recorder.record(decision.entry, resolve));
  };
  const stateOf = () => engine.sql`
    select consecutive_failures as failures, is_condemned as "isPendingDisable" from webhook_state where webhook_id = ${webhookId}`;
  const refused: Outcome = { kind: 'refused', reply, retryAfterMs: 0 };
  await Promise.all(range(10_000, 0).map((n) => attempt(n + 1, refused, n * 30)));
  assert.deepEqual([...(await stateOf())], [{ failures: 10_000, isPendingDisable: false }]);
  await attempt(10_001, { kind: 'delivered', reply: { ...reply, code: 204 } }, 2 * HOUR_MS);
  assert.deepEqual([...(await stateOf())], [{ failures: 0, isPendingDisable: false }]);
});

test('410 disables a webhook at once: its other deliveries fail unsent', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(410).end());
  const webhookId = await engine.addWebhook(receiver.url);
  const worker = await engine.startWorker();
  await engine.publish(range(5, 1), worker);
  await until(
    () => pendingOf(engine),
    (count) => count === 0,
  );
  assert.deepEqual(await webhookOf(engine, webhookId), { isActive: false, epoch: 1, revision: 2 });
  assert.equal((await entriesOf(engine)).length, 1);
  // A lane begins with one exchange at a time.
  assert.equal(receiver.got.length, 1);
});

test('410 to the only delivery disables the webhook, too', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  receiver.answer((_got, response) => response.writeHead(410).end());
  const webhookId = await engine.addWebhook(receiver.url);
  await engine.publish([1], await engine.startWorker());
  const webhook = await until(
    () => webhookOf(engine, webhookId),
    ({ isActive }) => !isActive,
  );
  assert.deepEqual(webhook, { isActive: false, epoch: 1, revision: 2 });
});

test('a pending disable of a crashed owner is completed by its successor before it sends anything', async () => {
  const engine = await startEngine();
  const receiver = await startReceiver();
  const webhookId = await engine.addWebhook(`${receiver.url}/pending`);
  await engine.publish(range(5, 1));
  await engine.addWebhook(`${receiver.url}/sound`);
  await engine.publish([9]);
  await engine.sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, is_condemned)
    values (${shardOf(webhookId)}, ${webhookId}, 0, 12, now(), true)`;
  const holder = await engine.sql.reserve();
  await holder`begin`;
  await holder`select from webhook where id = ${webhookId} for update`;
  await engine.startWorker();
  await receiver.until(1);
  // The disable waits for the row; the other webhooks loaded with it are sent.
  const waiting = () => engine.sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await until(waiting, ({ length }) => length === 1);
  await holder`commit`;
  holder.release();
  await until(
    () => pendingOf(engine),
    (count) => count === 0,
  );
  assert.deepEqual(await webhookOf(engine, webhookId), { isActive: false, epoch: 1, revision: 2 });
  assert.deepEqual(
    receiver.got.map(({ path }) => path),
    ['/sound'],
  );
});
