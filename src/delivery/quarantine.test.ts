import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { testClock } from '../../test/setup/clock.ts';
import { testDatabase } from '../../test/setup/database.ts';
import type { Pending } from './policy/entry.ts';
import { HEALTHY, NO_BACKOFF } from './policy/policy.ts';
import { Lane } from './queue/lane.ts';
import { releaseShards, takeShards } from './leases/leases-sql.ts';
import { CrashCounts, Quarantine } from './quarantine.ts';

const SELF = 1;
const DEAD = 9;
const now = new Date();

const { sql } = await testDatabase();
await sql`insert into worker (id, beat, date_started) values (${DEAD}, 5, now())`;

let nextShard = 0;

/** A shard of its own for each test, with these deliveries noted. */
async function shardWith(notes: Readonly<Record<number, number>>, owner = DEAD): Promise<number> {
  const shard = (nextShard += 1);
  await sql`update shard_lease set owner = ${owner}, fence = 1 where shard = ${shard}`;
  for (const [id, crashCount] of Object.entries(notes)) {
    await sql`
      insert into delivery_suspect (shard, delivery_id, fence, deaths)
      values (${shard}, ${Number(id)}, 1, ${crashCount})`;
  }
  return shard;
}

async function notesOf(shard: number): Promise<Record<string, number>> {
  const rows = await sql<{ id: number; crashCount: number }[]>`
    select delivery_id as id, deaths as "crashCount" from delivery_suspect where shard = ${shard} order by delivery_id`;
  return Object.fromEntries(rows.map(({ id, crashCount }) => [id, crashCount]));
}

async function take(shard: number) {
  const taken = await takeShards(sql, SELF, [shard], [{ id: DEAD, beat: 5 }]);
  return taken.map(({ crashCount }) => crashCount);
}

function pending(id: number): Pending {
  return { id, storeId: 1, webhookId: 2, epoch: 0, eventId: id, attempts: 0, faults: 0, dueAt: now };
}

async function quarantineOf(shard: number, fence = 1, crashCount = 0) {
  const lost: number[] = [];
  const lane = new Lane(shard, 2, { laneQueue: 100, slotsPerLane: 100, slotsPerSlowLane: 1 });
  // A fast endpoint, whose lane queues as many as are offered.
  lane.applyOutcome(0, { health: HEALTHY, backoff: NO_BACKOFF, isPendingDisable: false });
  const crashCounts = { of: () => crashCount };
  const ownership = { workerId: SELF, fenceOf: () => fence, lost: (one: number) => void lost.push(one), crashCounts };
  const quarantine = new Quarantine({ sql, log: createLog('silent') }, ownership);
  assert.deepEqual(await quarantine.load([shard]), [shard]);
  assert.equal(quarantine.markers.has(shard), true);
  /** Takes the queued deliveries and returns those that may be sent. */
  const sendAll = (): number[] => {
    const sent: number[] = [];
    for (let one = lane.take(); one !== undefined; one = lane.take()) {
      if (quarantine.admit(lane, one) === 'send') sent.push(one.id);
      if (sent.length > 100) throw new Error('it goes on for ever');
    }
    return sent;
  };
  return { quarantine, lane, lost, sendAll };
}

test('a take-over from a dead owner raises the crash count of the shard and of all noted deliveries', async () => {
  const shard = await shardWith({ 11: 0, 12: 3 });
  assert.deepEqual(await take(shard), [1]);
  assert.deepEqual(await notesOf(shard), { 11: 1, 12: 4 });
});

test('a delivery that waited for its slot when the owner died is not counted', async () => {
  const shard = await shardWith({ 11: 2, 12: 2 });
  await sql`update shard_lease set fence = 2 where shard = ${shard}`;
  await sql`update delivery_suspect set fence = 2 where shard = ${shard} and delivery_id = 12`;
  assert.deepEqual(await take(shard), [1]);
  assert.deepEqual(await notesOf(shard), { 11: 2, 12: 3 });
});

test('a quarantined delivery is noted each time another owner sends it, however long ago the last crash was', async () => {
  const shard = await shardWith({ 11: 2 }, SELF);
  await sql`update shard_lease set fence = 7 where shard = ${shard}`;
  const { quarantine } = await quarantineOf(shard, 7, 0);
  assert.equal(quarantine.mustMark(shard, 11), true);
  assert.equal(await quarantine.mark(shard, 11), true);
  const [note] = await sql<
    { fence: number }[]
  >`select fence from delivery_suspect where delivery_id = 11 and shard = ${shard}`;
  assert.equal(note?.fence, 7);
});

test('a shard that was handed back loses its crash count, and its next owner counts nothing', async () => {
  const shard = await shardWith({ 11: 2 }, SELF);
  await sql`update shard_lease set deaths = 4 where shard = ${shard}`;
  await releaseShards(sql, SELF, [shard]);
  assert.deepEqual(await take(shard), [0]);
  assert.deepEqual(await notesOf(shard), { 11: 2 });
});

test('the crash count of a shard is reset after its owner has run for an hour', async () => {
  const shard = await shardWith({}, SELF);
  await sql`update shard_lease set deaths = 3 where shard = ${shard}`;
  const system = testClock();
  let elapsedMs = 0;
  const crashCounts = new CrashCounts(SELF, { ...system, monotonicMs: () => elapsedMs });
  crashCounts.add([{ shard, crashCount: 3 }]);
  const after = async (ms: number) => {
    elapsedMs = ms;
    await crashCounts.resetStable(sql);
    const [row] = await sql<
      { crashCount: number }[]
    >`select deaths as "crashCount" from shard_lease where shard = ${shard}`;
    return [crashCounts.of(shard), row?.crashCount];
  };
  assert.deepEqual(await after(3_599_000), [3, 3]);
  assert.deepEqual(await after(3_601_000), [0, 0]);
});

test('deliveries with crash count one are sent sixteen at once, and the next when one of them ends', async () => {
  const ids = Array.from({ length: 20 }, (_, index) => 101 + index);
  const shard = await shardWith(Object.fromEntries(ids.map((id) => [id, 1])), SELF);
  const { quarantine, lane, sendAll } = await quarantineOf(shard);
  for (const id of [...ids, 999]) lane.deliveries.offer(pending(id));
  assert.deepEqual(sendAll(), [...ids.slice(0, 16), 999], 'a delivery outside the quarantine passes');
  quarantine.leave(101);
  assert.deepEqual(sendAll(), [117]);
  for (const id of [102, 103, 104, 105]) quarantine.leave(id);
  assert.deepEqual(sendAll(), [118, 119, 120]);
});

test('a delivery with crash count five is never sent again', async () => {
  const shard = await shardWith({ 11: 5, 12: 4 }, SELF);
  const { quarantine, lane } = await quarantineOf(shard);
  assert.equal(quarantine.admit(lane, pending(11)), 'never');
  assert.equal(quarantine.admit(lane, pending(12)), 'send');
});

test('in a shard whose owners crash, deliveries are noted before they are sent, and only under its fencing token', async () => {
  const shard = await shardWith({}, SELF);
  const owner = await quarantineOf(shard, 1, 2);
  assert.equal(owner.quarantine.mustMark(shard, 21), true);
  assert.equal(await owner.quarantine.mark(shard, 21), true);
  const loser = await quarantineOf(shard, 0, 2);
  assert.equal(await loser.quarantine.mark(shard, 22), false);
  assert.deepEqual(loser.lost, [shard]);
  assert.deepEqual(await notesOf(shard), { 21: 0 });
});

test('after one crash nothing is noted: any delivery may be the cause', async () => {
  const shard = await shardWith({}, SELF);
  const { quarantine } = await quarantineOf(shard, 1, 1);
  assert.equal(quarantine.mustMark(shard, 21), false);
});
