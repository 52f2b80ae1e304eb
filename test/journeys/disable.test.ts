/** Which worker may disable a webhook, and when it is too late for that. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { Lane } from '#delivery/queue/lane.ts';
import type { Notice } from '#delivery/outcomes.ts';
import { PendingDisables, type DisableWebhook } from '#delivery/queue/ending.ts';
import { openInternalEvents } from '#server/publishing.ts';
import { createDisableWebhook } from '#webhooks/webhook-end.ts';
import { BASE_URL, startEngine } from '../setup/engine.ts';
import { until } from '../setup/until.ts';

const FENCE = 5;

/** A webhook of a shard that worker 7 owns, and a function that disables it as a worker with this fencing token. */
async function start() {
  const engine = await startEngine();
  const { sql, clock } = engine;
  const webhookId = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(webhookId);
  await sql`update shard_lease set owner = 7, fence = ${FENCE} where shard = ${shard}`;
  const native = createDisableWebhook(openInternalEvents({ baseUrl: BASE_URL }));
  const notices: Notice[] = [];
  const demand = (fence: number, epoch: number, switchOff: DisableWebhook = native, leaseMs = 60_000) => {
    const { promise: done, resolve } = Promise.withResolvers<number[]>();
    const lost: number[] = [];
    const lane = new Lane(shard, webhookId, { laneQueue: 1, slotsPerLane: 1, slotsPerSlowLane: 1 });
    const switchOffs = new PendingDisables(
      { sql, clock, log: createLog('silent') },
      {
        ownership: { workerId: 7, fenceOf: () => fence, lost: (one) => void lost.push(one) },
        metrics: { deactivated: () => {} },
        notify: (notice) => void notices.push(notice),
        settings: { leaseMs, deactivateAfterFailures: 12, deactivateAfterSeconds: { hour: 3_600, long: 272_105 } },
        disableWebhook: switchOff,
        requests: { reload: () => resolve(lost) },
      },
    );
    switchOffs.request(lane, epoch);
    return done;
  };
  const trace = async () => {
    const [row] = await sql<{ isActive: boolean; epoch: number; entries: number }[]>`
      select is_active as "isActive", epoch, (select count(*) from event where resource_type = 'changelog') as entries
      from webhook where id = ${webhookId}`;
    return { ...row };
  };
  return { sql, shard, webhookId, demand, notices, trace };
}

test('the owner of the shard disables the webhook, and the store is notified', async () => {
  const { shard, webhookId, demand, notices, trace } = await start();
  assert.deepEqual(await demand(FENCE, 0), []);
  assert.deepEqual(await trace(), { isActive: false, epoch: 1, entries: 1 });
  assert.deepEqual(notices, [{ shard, webhookId, epoch: 0, about: 'failures' }]);
});

test('a worker that is frozen while it disables a webhook keeps the shard from its next owner for one lease at most', async () => {
  const { sql, shard, demand } = await start();
  const holds = Promise.withResolvers<void>();
  const thaws = Promise.withResolvers<boolean>();
  const frozen = () => {
    holds.resolve();
    return thaws.promise;
  };
  void demand(FENCE, 0, frozen, 1_000);
  await holds.promise;
  const take = () => sql`
    update shard_lease set owner = 8
    where shard = (select shard from shard_lease where shard = ${shard} for update skip locked) returning owner`;
  const taken = await until(take, ({ length }) => length === 1);
  thaws.resolve(true);
  assert.deepEqual([...taken], [{ owner: 8 }]);
});

test('a worker that has lost the shard disables nothing, and learns of the loss', async () => {
  const { shard, demand, notices, trace } = await start();
  assert.deepEqual(await demand(FENCE - 1, 0), [shard]);
  assert.deepEqual(notices, []);
  assert.deepEqual(await trace(), { isActive: true, epoch: 0, entries: 0 });
});

test('a webhook that was disabled and enabled since the failures stays enabled', async () => {
  const { sql, webhookId, demand, trace } = await start();
  await sql`update webhook set epoch = 1 where id = ${webhookId}`;
  assert.deepEqual(await demand(FENCE, 0), []);
  assert.deepEqual(await trace(), { isActive: true, epoch: 1, entries: 0 });
});

test('a disabled webhook is not disabled twice, and no notice is sent', async () => {
  const { sql, webhookId, demand, notices, trace } = await start();
  await sql`update webhook set is_active = false where id = ${webhookId}`;
  assert.deepEqual(await demand(FENCE, 0), []);
  assert.deepEqual(await trace(), { isActive: false, epoch: 0, entries: 0 });
  assert.deepEqual(notices, []);
});
