import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import type { Lane } from './lane.ts';
import { Lanes } from './lanes.ts';
import { findPendingDisables, findStaleSettings } from './reconcile.ts';
import { loadTargets } from '../attempt/target-sql.ts';
import { targetOf } from '../attempt/target.ts';

const limits = {
  laneQueue: 4,
  slotsPerLane: 1,
  slotsPerSlowLane: 1,
  endpointsKept: 9,
  heldDeliveries: 99,
  heldLanes: 9,
};

/** A webhook without a worker, and what is found of its lane. */
async function start() {
  const engine = await startEngine();
  const { sql, sealer, storeId } = engine;
  const id = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(id);
  const lanes = new Lanes(limits);
  const owns = () => true;
  const read = async () => {
    const lane = lanes.get(shard, id);
    const [row] = await loadTargets(sql, shard, [id]);
    lane.target = targetOf(row, sealer);
    return lane;
  };
  const stale = async () => {
    const found: Lane[] = [];
    await findStaleSettings({ sql, lanes, owns, reload: (lane) => found.push(lane) }, shard);
    return found.length;
  };
  const condemned = async () => {
    const found: (number | null)[] = [];
    await findPendingDisables({ sql, lanes, owns, activate: (lane) => found.push(lane.pendingDisableEpoch) }, shard);
    return found;
  };
  return { sql, storeId, id, shard, lanes, read, stale, condemned };
}

test('a lane is stale when its webhook or the domain of its store is another than what was read, and at no other time', async () => {
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
  lane.forgetTarget();
  assert.equal(await stale(), 0, 'it is read before anything is sent');
});

test('a lane that heard of the change while the table was looked at needs nobody to tell it', async () => {
  const { sql, id, read, stale } = await start();
  const lane = await read();
  await sql`update webhook set revision = revision + 1 where id = ${id}`;
  const looked = stale();
  lane.forgetTarget();
  assert.equal(await looked, 0);
});

test('who is to be switched off is found as long as nobody has, and nobody has begun to count anew', async () => {
  const { sql, id, shard, lanes, condemned } = await start();
  assert.deepEqual(await condemned(), []);
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, is_condemned)
    values (${shard}, ${id}, 0, 12, now(), true)`;
  assert.deepEqual(await condemned(), [0]);
  // A success took it back, and is not recorded yet.
  const lane = lanes.get(shard, id);
  lane.health = { epoch: 0, consecutiveFailures: 0, firstFailureAt: null, isWarned: false, hasSucceeded: true };
  assert.deepEqual(await condemned(), []);
  lanes.close(shard);
  assert.deepEqual(await condemned(), [0]);
  await sql`update webhook set epoch = 1 where id = ${id}`;
  lanes.close(shard);
  assert.deepEqual(await condemned(), []);
});

test('who is to be switched off has a place beyond all that are taken, and waits where those are taken too', async () => {
  const { sql, id, shard, lanes, condemned } = await start();
  await sql`
    insert into webhook_state (shard, webhook_id, epoch, consecutive_failures, first_failure_at, is_condemned)
    values (${shard}, ${id}, 0, 12, now(), true)`;
  const other = (shard + 1) % 256;
  for (let n = 1; n <= limits.heldLanes + 1; n += 1) lanes.get(other, n);
  assert.deepEqual(await condemned(), []);
  assert.equal(lanes.count, limits.heldLanes + 1);
  lanes.close(other);
  for (let n = 1; n <= limits.heldLanes; n += 1) lanes.get(other, n);
  assert.deepEqual(await condemned(), [0]);
});
