import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { dayOf, idOf, SHARDS as SHARD_COUNT } from '#core/ids.ts';
import { Pace } from '#core/lifecycle.ts';
import { createLog } from '#core/log.ts';
import { openPool } from '#db/pool.ts';
import { NEVER_QUIET, standingClock } from '../../../test/setup/clock.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { ACTIVE } from '../../../test/setup/lane-target.ts';
import { until } from '../../../test/setup/until.ts';
import { Discovery } from './discovery.ts';
import type { Lane } from './lane.ts';
import { Lanes } from './lanes.ts';
import { fetchLanes, loadArrivals } from './queue-sql.ts';

const SHARDS = [7, 8, 9];
const EACH = 4;
const WEBHOOKS = SHARDS.length * EACH;
/** Of five, while no endpoint is known to answer. */
const PLACES = 4;
const now = new Date();
const { sql, address } = await testDatabase();

for (const shard of SHARDS) {
  for (let n = 1; n <= EACH; n += 1) {
    const id = idOf(dayOf(now) * 2 ** 30 + n, shard);
    await sql`
      insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
      values (${shard}, ${id}, ${shard}, ${idOf(n, shard)}, 0, ${id}, 0, ${now})`;
  }
}

/** The lane gets settings (any will do) and its one row, or finds that the row is gone. */
function supply(lane: Lane, isSent = false): void {
  const { shard, webhookId, deliveries } = lane;
  if (lane.target === null) lane.applySettings(ACTIVE);
  if (!lane.needsFetch) return;
  const id = idOf(dayOf(now) * 2 ** 30, 0) + webhookId;
  const row = { id, storeId: shard, webhookId, epoch: 0, eventId: id, attempts: 0, faults: 0, dueAt: now };
  deliveries.endFetch(isSent ? [] : [row], deliveries.beginFetch(0), now.getTime());
}

/** Three shards with four webhooks each, and places for four; `found` has the lanes of each webhook. */
function discoveryOf(
  t: { after: (end: () => void) => void },
  isSent = false,
  { log = createLog('silent'), heldLanes = PLACES + 1, sql: own = sql, pace = NEVER_QUIET } = {},
) {
  const limits = { laneQueue: 9, slotsPerLane: 1, slotsPerSlowLane: 1, endpointsKept: 99, heldDeliveries: 99 };
  const lanes = new Lanes({ ...limits, heldLanes });
  const found = new Map<number, Set<Lane>>();
  const held = new Set<number>();
  let most = 0;
  let givenUp = 0;
  const dispatcher = {
    send: (sent: Iterable<Lane>) => {
      for (const lane of sent) {
        most = Math.max(most, lanes.count);
        const before = found.get(lane.webhookId);
        if (before === undefined) found.set(lane.webhookId, new Set([lane]));
        else before.add(lane);
        supply(lane, isSent);
      }
    },
    removeClosed: () => void (givenUp += 1),
  };
  const discovery = new Discovery(
    { sql: own, clock: systemClock, pace, log },
    {
      lanes,
      ownership: { owns: (shard) => SHARDS.includes(shard) },
      unfetched: { end: (_shard, webhookId) => void held.add(webhookId) },
      requests: { reload: () => assert.fail('no webhook is inactive here') },
      dispatcher,
    },
  );
  t.after(() => discovery.stop());
  return { discovery, lanes, found, held, most: () => most, givenUp: () => givenUp };
}

test('webhooks without a lane replace idle lanes, again and again', async (t) => {
  const { discovery, found, most } = discoveryOf(t);
  const turns = async () => {
    discovery.runRound();
    return found.size < WEBHOOKS ? 0 : Math.min(...[...found.values()].map((lanes) => lanes.size));
  };
  await until(turns, (least) => least >= 3);
  assert.equal(most(), PLACES);
});

test('a finished portion admits the next one at once', async (t) => {
  const { discovery, found, most, givenUp } = discoveryOf(t, true);
  discovery.start();
  discovery.scanAll();
  await until(
    async () => found.size,
    (count) => count === WEBHOOKS,
  );
  assert.equal(most(), PLACES);
  assert.equal(givenUp(), 0, 'a finished lane does not wait for a round to pass');
});

test('a webhook that never had a lane gets one soon, although others leave theirs idle', async (t) => {
  const { discovery, found, most } = discoveryOf(t);
  discovery.start();
  discovery.scanAll();
  await until(
    async () => found.size,
    (count) => count === WEBHOOKS,
  );
  assert.equal(most(), PLACES);
});

test('a failed scan is repeated soon, for every requested shard', async (t) => {
  let failures = 0;
  const log = createLog('warn', { write: () => void (failures += 1) });
  const { discovery, found } = discoveryOf(t, true, { log });
  await sql`alter table delivery rename to away`;
  discovery.scanShards(SHARDS);
  await until(
    async () => failures,
    (count) => count >= SHARDS.length,
  );
  await sql`alter table away rename to delivery`;
  await until(
    async () => found.size,
    (count) => count > 0,
  );
});

test('deliveries for a listener take no lane, however many, and are not fetched for sending', async (t) => {
  const HELD = 10_000;
  const [shard = 0] = SHARDS;
  // Between others: the webhooks after it are found as usual.
  const webhookId = idOf(2, shard) + 128 * 256;
  const first = idOf((dayOf(now) + 1) * 2 ** 30, shard);
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
    select ${shard}, ${first} + n * 256, ${shard}, ${webhookId}, 0, ${first} + n * 256, 0, 'infinity'
    from generate_series(1, ${HELD}::bigint) as n`;
  t.after(() => sql`delete from delivery where due_at = 'infinity'`);
  const { discovery, found, held, most } = discoveryOf(t, true);
  discovery.start();
  discovery.scanAll();
  await until(
    async () => found.size,
    (count) => count === WEBHOOKS,
  );
  assert.deepEqual([most(), found.has(webhookId), [...held]], [PLACES, false, [webhookId]]);
  assert.equal((await fetchLanes(sql, [shard], [webhookId], [{ limit: 9, fromMs: 0, startedMs: 0 }])).length, 0);
  assert.equal((await loadArrivals(sql, [shard], [first + 256], 1)).length, 0);
});

/** Adds webhooks with a due delivery each to the first shard. */
async function addMany(t: { after: (end: () => Promise<unknown>) => void }, count: number): Promise<void> {
  const [shard = 0] = SHARDS;
  const first = idOf((dayOf(now) + 1) * 2 ** 30, shard);
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, attempts, due_at)
    select ${shard}, ${first} + n * 256, ${shard}, ${idOf(100, shard)} + n * 256, 0, ${first} + n * 256, 0, ${now}
    from generate_series(1, ${count}::bigint) as n`;
  t.after(() => sql`delete from delivery where id >= ${first}`);
}

test('one statement finds webhooks of every shard, however many one of them has', async (t) => {
  const MANY = 2_500;
  await addMany(t, MANY);
  const statements: string[] = [];
  const onQuery = (statement: string) => void statements.push(statement);
  const counted = openPool(address, { connections: 1, applicationName: 'test-discovery', onQuery });
  t.after(() => counted.end({ timeout: 0 }));
  const { discovery, found } = discoveryOf(t, true, { heldLanes: 2 * MANY, sql: counted });
  discovery.scanShards(SHARDS);
  await until(
    async () => found.size,
    (count) => count === MANY + WEBHOOKS,
  );
  const others = [...found.keys()].slice(0, 3 * EACH).filter((webhookId) => webhookId % SHARD_COUNT !== SHARDS[0]);
  assert.equal(others.length, 2 * EACH, 'the small shards do not wait for the large one');
  const areSearches = statements.map((statement) => statement.includes('with recursive lane'));
  assert.deepEqual(areSearches.slice(0, 4), [true, true, true, true], 'shards are reconciled after the search');
  assert.equal(areSearches.filter(Boolean).length, 4);
});

test('shards share the places, however many webhooks the first of them has', async (t) => {
  await addMany(t, 10 * PLACES);
  const { discovery, lanes } = discoveryOf(t, false, { heldLanes: 8 });
  discovery.scanShards(SHARDS);
  await until(
    async () => lanes.count,
    (count) => count === 6,
  );
  assert.deepEqual(
    SHARDS.map((shard) => [...lanes.ofShards([shard])].length),
    [2, 2, 2],
  );
});

test('if there are fewer places than shards, the shards take turns', async (t) => {
  const MANY = 10 * WEBHOOKS;
  await addMany(t, MANY);
  const { discovery, found } = discoveryOf(t, true, { heldLanes: 1 });
  discovery.start();
  discovery.scanAll();
  const small = () => [...found.keys()].filter((webhookId) => webhookId % SHARD_COUNT !== SHARDS[0]);
  await until(
    async () => small().length,
    (count) => count === 2 * EACH,
  );
  assert.ok(found.size < MANY, `${found.size} webhooks of the first shard came before`);
});

test('a shard that cannot be read delays no other', async (t) => {
  const [damaged] = SHARDS;
  await sql.unsafe(`create function damaged(shard smallint) returns boolean language plpgsql immutable as
    $$ begin if shard = ${damaged} then raise exception 'invalid page' using errcode = 'XX001'; end if; return true; end $$`);
  await sql`alter table delivery rename to sound`;
  await sql`create view delivery as select * from sound where damaged(shard)`;
  t.after(async () => {
    await sql`drop view delivery`;
    await sql`alter table sound rename to delivery`;
  });
  const { discovery, found } = discoveryOf(t, true, { heldLanes: 2 * WEBHOOKS });
  discovery.scanShards(SHARDS);
  await until(
    async () => found.size,
    (count) => count === 2 * EACH,
  );
});

test('a delivery that is due later keeps the process from becoming quiet', async (t) => {
  await sql`update delivery set due_at = now() + interval '1 hour'`;
  const clock = standingClock();
  const pace = new Pace(clock);
  const { discovery, found } = discoveryOf(t, false, { pace });
  for (let round = 0; round < 3; round += 1) {
    clock.advance(60_000);
    assert.equal(pace.isQuiet, true);
    discovery.runRound();
    await until(
      async () => pace.isQuiet,
      (isQuiet) => !isQuiet,
    );
  }
  assert.equal(found.size, 0);
});
