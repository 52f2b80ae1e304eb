import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { HEALTHY, NO_BACKOFF } from '../policy/policy.ts';
import type { Lane } from './lane.ts';
import { Lanes } from './lanes.ts';
import { findPendingDisables, findStaleSettings } from './discovery.ts';
import { loadTargets } from '../delivery-sql.ts';
import { targetOf } from '../attempt/delivery-target.ts';

const limits = {
  laneQueue: 4,
  slotsPerLane: 1,
  slotsPerSlowLane: 1,
  endpointsKept: 9,
  heldDeliveries: 99,
  heldLanes: 9,
};

/** A webhook without a worker, and what reconciling finds for its lane. */
async function start() {
  const engine = await startEngine();
  const { sql, sealer, storeId } = engine;
  const id = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(id);
  const lanes = new Lanes(limits);
  const ownership = { owns: () => true };
  const read = async () => {
    const lane = lanes.get(shard, id);
    const [row] = await loadTargets(sql, [shard], [id]);
    lane.applySettings(targetOf(row, sealer));
    return lane;
  };
  /** Returns the webhooks that a search reads again. */
  const reloadedBy = async (find: (...given: Parameters<typeof findStaleSettings>) => Promise<void>) => {
    const found: number[] = [];
    const requests = { reload: ({ webhookId }: Lane) => void found.push(webhookId) };
    await find({ sql }, { lanes, ownership, requests }, shard);
    return found;
  };
  const stale = async () => (await reloadedBy(findStaleSettings)).length;
  const pendingDisables = () =>
    reloadedBy((runtime, parts, each) => findPendingDisables(runtime, parts, [(each + 1) % 256, each]));
  return { sql, storeId, id, shard, lanes, read, stale, pendingDisables };
}

test('a lane is stale exactly when its webhook or the domain of its store differs from what was read', async () => {
  const { sql, storeId, id, read, stale } = await start();
  await read();
  assert.equal(await stale(), 0);
  await sql`update webhook set rate_per_second = 5, revision = revision + 1 where id = ${id}`;
  assert.equal(await stale(), 1);
  await read();
  assert.equal(await stale(), 0);
  await sql`update store set name = 'Another name' where id = ${storeId}`;
  assert.equal(await stale(), 0);
  await sql`update store set domain = 'another.example.com' where id = ${storeId}`;
  assert.equal(await stale(), 1);
  const lane = await read();
  await sql`delete from webhook where id = ${id}`;
  assert.equal(await stale(), 1);
  lane.discardSettings();
  assert.equal(await stale(), 0, 'it is read before anything is sent');
});

test('a lane that was notified of the change during the check is not reported as stale', async () => {
  const { sql, id, read, stale } = await start();
  const lane = await read();
  await sql`update webhook set revision = revision + 1 where id = ${id}`;
  const looked = stale();
  lane.discardSettings();
  assert.equal(await looked, 0);
});

test('a pending disable is found until it is carried out, a success resets it, or the epoch has changed', async () => {
  const { sql, id, shard, lanes, pendingDisables } = await start();
  assert.deepEqual(await pendingDisables(), []);
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, is_condemned)
    values (${shard}, ${id}, 0, 12, now(), true)`;
  assert.deepEqual(await pendingDisables(), [id]);
  // A success reset it, and is not recorded yet.
  const lane = lanes.get(shard, id);
  lane.applyOutcome(0, { health: HEALTHY, backoff: NO_BACKOFF, isPendingDisable: false });
  assert.deepEqual(await pendingDisables(), []);
  lanes.close(shard);
  assert.deepEqual(await pendingDisables(), [id]);
  await sql`update webhook set epoch = 1 where id = ${id}`;
  lanes.close(shard);
  assert.deepEqual(await pendingDisables(), []);
});

test('a pending disable uses the reserve beyond the lane limit, and waits if that is in use too', async () => {
  const { sql, id, shard, lanes, pendingDisables } = await start();
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, is_condemned)
    values (${shard}, ${id}, 0, 12, now(), true)`;
  const other = (shard + 1) % 256;
  for (let n = 1; n <= limits.heldLanes + 1; n += 1) lanes.get(other, n);
  assert.deepEqual(await pendingDisables(), []);
  assert.equal(lanes.count, limits.heldLanes + 1);
  lanes.close(other);
  for (let n = 1; n <= limits.heldLanes; n += 1) lanes.get(other, n);
  assert.deepEqual(await pendingDisables(), [id]);
});
