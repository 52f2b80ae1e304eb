import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { createLog } from '#core/log.ts';
import { dayOf, idOf } from '#core/ids.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import type { AnnouncedWork } from '../announce.ts';
import { Bodies } from '../attempt/bodies.ts';
import { Arrivals } from './arrivals.ts';
import type { Lane } from './lane.ts';
import { Lanes, Signal } from './lanes.ts';
import { loadArrivals } from './queue-sql.ts';

const WEBHOOK = 1_000;
const now = new Date();
const clock = { now: () => now, monotonicMs: () => 1_000 };
const { sql, address } = await testDatabase();

let n = dayOf(now) * 2 ** 30;
const nextId = (shard: number): number => idOf((n += 1), shard);

/** One event in that shard, with a delivery for each webhook; returns the ids of the deliveries. */
async function commit(shard: number, given: { webhooks?: number[]; body?: string; attempts?: number } = {}) {
  const { webhooks = [WEBHOOK], body = '{}', attempts = 0 } = given;
  const eventId = nextId(shard);
  await sql`
    insert into event (shard, id, store_id, resource_type, resource_id, action, version, nonce, time_zone, base_url,
      date_created, body)
    values (${shard}, ${eventId}, ${shard}, 'transaction', '1', 'created', 1, 1, 'UTC', 'http://localhost', ${now}, ${body})`;
  const ids = webhooks.map(() => nextId(shard));
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
    select ${shard}, d.id, ${shard}, d.webhook_id, 0, ${eventId}, ${attempts}, ${now}
    from unnest(${ids}::bigint[], ${webhooks}::bigint[]) as d (id, webhook_id)`;
  return {
    eventId,
    announcements: ids.map((deliveryId, index) => ({ shard, webhookId: webhooks[index] ?? 0, deliveryId })),
  };
}

/** Where announcements arrive; `handed` returns the lanes that the next read gave deliveries or made read the table. */
function arrivalsOf({ pool = sql, owns = () => true }: { pool?: typeof sql; owns?: (shard: number) => boolean } = {}) {
  const limits = {
    laneQueue: 100,
    slotsPerLane: 1,
    slotsPerSlowLane: 1,
    endpointsKept: 10,
    heldDeliveries: 10_000,
    heldLanes: 100,
  };
  const lanes = new Lanes(limits);
  const bodies = new Bodies({ sql }, { bodyCacheBytes: 8 * 1024 * 1024 });
  const read = new Signal();
  const send = (arrived: Iterable<Lane>): void => {
    if ([...arrived].length > 0) read.fire();
  };
  const arrivals = new Arrivals(
    { sql: pool, clock, log: createLog('silent') },
    { ownership: { owns }, lanes, bodies, requests: { add: () => {} }, dispatcher: { send } },
  );
  const receive = async (announcements: readonly AnnouncedWork[]): Promise<void> => {
    const done = read.next();
    arrivals.receive(announcements);
    await done;
  };
  return { arrivals, lanes, bodies, receive, read };
}

test('announced deliveries are queued in the order of their announcements, with their bodies', async () => {
  const first = await commit(1);
  const second = await commit(1);
  const { lanes, bodies, receive } = arrivalsOf();
  await receive([...second.announcements, ...first.announcements]);
  const { deliveries } = lanes.get(1, WEBHOOK);
  assert.deepEqual([deliveries.take()?.eventId, deliveries.take()?.eventId], [second.eventId, first.eventId]);
  assert.equal(bodies.peek({ storeId: 1, eventId: first.eventId })?.event.body, '{}');
});

test('announcements that arrive during a read share the next read, for any number of shards', async (t) => {
  let reads = 0;
  const onQuery = (statement: string) => void (reads += Number(statement.includes('from delivery d')));
  const pool = openPool(address, { connections: 2, applicationName: 'test', onQuery });
  t.after(() => pool.end());
  const all = await Promise.all(Array.from({ length: 40 }, (_, index) => commit(10 + index)));
  const { arrivals, lanes } = arrivalsOf({ pool });
  for (const { announcements } of all) arrivals.receive(announcements);
  const queued = async () => [...lanes.all()].filter(({ deliveries }) => deliveries.queued === 1).length;
  await until(queued, (count) => count === all.length);
  assert.equal(reads, 2);
});

test('a delivery that a fetch loaded meanwhile is not taken from a read that began before', async () => {
  const { announcements, eventId } = await commit(2);
  const { lanes, receive } = arrivalsOf();
  const lane = lanes.get(2, WEBHOOK);
  const received = receive(announcements);
  const fetch = lane.deliveries.beginFetch(now.getTime());
  const [{ deliveryId } = { deliveryId: 0 }] = announcements;
  const row = { id: deliveryId, storeId: 2, webhookId: WEBHOOK, epoch: 0, eventId, attempts: 0, faults: 0, dueAt: now };
  lane.deliveries.endFetch([row], fetch, now.getTime());
  lane.take();
  lane.attemptEnded();
  lane.deliveries.complete(deliveryId, null);
  await received;
  assert.equal(lane.deliveries.queued, 0);
  assert.ok(lane.needsFetch, 'the table has the remaining rows');
});

test('a body erased during the read is not cached', async () => {
  const { announcements, eventId } = await commit(3);
  const { lanes, bodies, receive } = arrivalsOf();
  const received = receive(announcements);
  bodies.forgetAll();
  await received;
  assert.equal(lanes.get(3, WEBHOOK).deliveries.queued, 1);
  assert.equal(bodies.peek({ storeId: 3, eventId }), undefined);
});

test('a long body is read when it is sent', async () => {
  const { announcements, eventId } = await commit(4, { body: JSON.stringify({ note: 'x'.repeat(40_000) }) });
  const { lanes, bodies, receive } = arrivalsOf();
  await receive(announcements);
  assert.equal(lanes.get(4, WEBHOOK).deliveries.queued, 1);
  assert.equal(bodies.peek({ storeId: 4, eventId }), undefined);
});

test('a delivery with earlier attempts waits for its due time', async () => {
  const { announcements } = await commit(5, { attempts: 1 });
  const { lanes, receive } = arrivalsOf();
  await receive(announcements);
  const lane = lanes.get(5, WEBHOOK);
  assert.deepEqual([lane.deliveries.queued, lane.needsFetch], [0, true]);
});

test('an announcement without a delivery id makes the lane read the table', async () => {
  const { lanes, receive } = arrivalsOf();
  await receive([{ shard: 6, webhookId: WEBHOOK, deliveryId: undefined }]);
  assert.ok(lanes.get(6, WEBHOOK).needsFetch);
});

test('a lane with a backlog reads no later deliveries', async () => {
  const { announcements } = await commit(7);
  const { lanes, receive } = arrivalsOf();
  const lane = lanes.get(7, WEBHOOK);
  lane.deliveries.markIncomplete();
  await receive(announcements);
  assert.equal(lane.deliveries.queued, 0);
});

test('nothing is taken of a shard that was lost during the read', async () => {
  const { announcements } = await commit(8);
  const other = await commit(9);
  let lost = -1;
  const { arrivals, lanes, receive } = arrivalsOf({ owns: (shard) => shard !== lost });
  arrivals.receive(announcements);
  lost = 8;
  lanes.close(8);
  await receive(other.announcements);
  assert.equal(lanes.find(8, WEBHOOK), undefined);
});

test('a delivery read for a removed lane is fetched by the lane that replaces it', async () => {
  const { announcements } = await commit(60);
  const { lanes, receive } = arrivalsOf();
  const received = receive(announcements);
  lanes.close(60);
  await received;
  const lane = lanes.get(60, WEBHOOK);
  assert.deepEqual([lane.deliveries.queued, lane.needsFetch], [0, true]);
});

test('a body for several webhooks is read once', async () => {
  const { announcements } = await commit(61, { webhooks: [1, 2, 3] });
  const ids = announcements.map(({ deliveryId }) => deliveryId);
  const rows = await loadArrivals(sql, [61, 61, 61], ids, 100);
  assert.equal(rows.length, 3);
  assert.equal(rows.filter(({ body }) => body !== null).length, 1);
});

/** A lane whose breaker is open until long after the time of the clock. */
function failingLane(lanes: Lanes, shard: number): Lane {
  const lane = lanes.get(shard, WEBHOOK);
  lane.startConditions.backoff = { pausedUntilMs: 50_000, breaker: { failedProbes: 3, probeAtMs: 90_000 } };
  return lane;
}

test('a requested delivery is queued first whatever its due time, and a probe may start at once', async () => {
  const waiting = await commit(70);
  const requested = await commit(70, { attempts: 3 });
  const { lanes, arrivals, receive, read } = arrivalsOf();
  await receive(waiting.announcements);
  const lane = failingLane(lanes, 70);
  const done = read.next();
  arrivals.retry(requested.announcements);
  await done;
  assert.deepEqual([lane.deliveries.first?.eventId, lane.deliveries.queued], [requested.eventId, 2]);
  assert.deepEqual([lane.startConditions.canStart(0, 1_000), lane.startConditions.isBreakerOpen], [true, true]);
});

test('a requested delivery that is queued already moves to the front, once', async () => {
  const [first, second] = [await commit(71), await commit(71)];
  const { lanes, arrivals, receive, read } = arrivalsOf();
  await receive([...first.announcements, ...second.announcements]);
  const done = read.next();
  arrivals.retry([...second.announcements, ...second.announcements]);
  await done;
  const { deliveries } = lanes.get(71, WEBHOOK);
  assert.deepEqual([deliveries.take()?.eventId, deliveries.take()?.eventId], [second.eventId, first.eventId]);
  assert.equal(deliveries.queued, 0);
});

test('a requested delivery whose attempt is running is not queued a second time', async () => {
  const { announcements, eventId } = await commit(72);
  const { lanes, arrivals, receive, read } = arrivalsOf();
  await receive(announcements);
  const lane = lanes.get(72, WEBHOOK);
  assert.equal(lane.take()?.eventId, eventId);
  const done = read.next();
  arrivals.retry(announcements);
  await done;
  assert.equal(lane.deliveries.queued, 0);
});

test('a requested delivery that was attempted while its row was read is not sent from the outdated row', async () => {
  const { announcements } = await commit(73);
  const { lanes, arrivals, receive, read } = arrivalsOf();
  await receive(announcements);
  const lane = lanes.get(73, WEBHOOK);
  const done = read.next();
  arrivals.retry(announcements);
  const sent = lane.take();
  assert.ok(sent !== undefined);
  lane.deliveries.complete(sent.id, null);
  await done;
  assert.equal(lane.deliveries.queued, 0);
});

test('a requested delivery is read again if a fetch of its lane ended meanwhile', async () => {
  const { announcements, eventId } = await commit(74, { attempts: 1 });
  const { lanes, arrivals, read } = arrivalsOf();
  const lane = lanes.get(74, WEBHOOK);
  const done = read.next();
  arrivals.retry(announcements);
  const fetch = lane.deliveries.beginFetch(0);
  lane.deliveries.endFetch([], fetch, 0);
  await done;
  await until(
    async () => lane.deliveries.queued,
    (queued) => queued === 1,
  );
  assert.equal(lane.deliveries.first?.eventId, eventId);
});

test('a request for all deliveries allows a probe at once, and makes the lane read the table', async () => {
  const { lanes, arrivals, read } = arrivalsOf();
  const lane = failingLane(lanes, 75);
  const done = read.next();
  arrivals.retry([{ shard: 75, webhookId: WEBHOOK, deliveryId: undefined }]);
  await done;
  assert.deepEqual([lane.startConditions.canStart(0, 1_000), lane.needsFetch], [true, true]);
});

test('requests for webhooks of other workers are ignored', () => {
  const { lanes, arrivals } = arrivalsOf({ owns: () => false });
  arrivals.retry([
    { shard: 76, webhookId: WEBHOOK, deliveryId: 1 },
    { shard: 76, webhookId: WEBHOOK, deliveryId: undefined },
  ]);
  assert.equal(lanes.find(76, WEBHOOK), undefined);
});
