import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool, type Sql } from '#db/pool.ts';
import { createLog, type Log } from '#core/log.ts';
import { idOf, shardOf } from '#core/ids.ts';
import { startEngine, type Engine } from '../../../test/setup/engine.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import { Bodies } from '../attempt/bodies.ts';
import { UNUSABLE } from '../attempt/delivery-target.ts';
import { FetchRequests, Signal } from './lanes.ts';
import { Fetcher, roundRobin } from './fetcher.ts';
import { Lane } from './lane.ts';

/** The requests to a fetcher over the engine's database, without a worker. */
function fetcherOf(
  t: { after: (end: () => void) => void },
  { sql, clock, sealer }: Engine,
  own: {
    sql?: Sql;
    log?: Log;
    bodies?: Bodies;
    workerId?: number;
    fenceOf?: () => number;
    onFilled: (lane: Lane) => void;
  },
): FetchRequests {
  const { bodies = new Bodies({ sql }, { bodyCacheBytes: 1_024 }), workerId = 7, fenceOf = () => undefined } = own;
  const requests = new FetchRequests();
  const fetcher = new Fetcher(
    { sql: own.sql ?? sql, clock, sealer, log: own.log ?? createLog('silent') },
    {
      ownership: { workerId, fenceOf },
      bodies,
      pendingDisables: { request: () => assert.fail('not called in these tests') },
      requests,
      dispatcher: { send: (lanes) => [...lanes].forEach(own.onFilled) },
    },
  );
  t.after(() => fetcher.stop());
  return requests;
}

const laneOf = (webhookId: number): Lane =>
  new Lane(shardOf(webhookId), webhookId, { laneQueue: 4, slotsPerLane: 1, slotsPerSlowLane: 1 });

test('an unusable webhook is logged once, however often it is read, and again after it was usable', async (t) => {
  const engine = await startEngine();
  const { sql } = engine;
  const id = await engine.addWebhook('http://127.0.0.1:1/');
  const lines: string[] = [];
  const log = createLog('error', { write: (line) => void lines.push(line) });
  const filled = new Signal();
  const requests = fetcherOf(t, engine, { log, onFilled: () => filled.fire() });
  const lane = laneOf(id);
  /** As discovery does every half minute with every inactive webhook. */
  const readAgain = async (): Promise<void> => {
    lane.discardSettings();
    const done = filled.next();
    requests.add(lane);
    await done;
  };
  const [row] = await sql<{ key: Buffer }[]>`select encryption_key as key from webhook where id = ${id}`;
  assert.ok(row !== undefined);
  const breakIt = () => sql`update webhook set encryption_key = 'encrypted with another key' where id = ${id}`;
  await breakIt();
  await readAgain();
  assert.equal(lane.target, UNUSABLE);
  await readAgain();
  assert.equal(lines.length, 1);
  await sql`update webhook set encryption_key = ${row.key} where id = ${id}`;
  await readAgain();
  assert.equal(lane.target?.isActive, true);
  await breakIt();
  await readAgain();
  assert.equal(lines.length, 2);
});

test('a webhook that changes during a fetch gets no delivery before its due time', async (t) => {
  const engine = await startEngine();
  const { sql } = engine;
  const id = await engine.addWebhook('http://127.0.0.1:1/');
  await engine.publish([1]);
  await sql`update delivery set attempts = 3, due_at = now() + interval '10 minutes'`;
  const filled = new Signal();
  const requests = fetcherOf(t, engine, { onFilled: () => filled.fire() });
  const lane = laneOf(id);
  const locked = await sql.reserve();
  await locked`begin`;
  await locked`lock table delivery in access exclusive mode`;
  lane.deliveries.markIncomplete();
  const done = filled.next();
  requests.add(lane);
  await until(
    async () => lane.target,
    (target) => target !== null,
  );
  lane.discardSettings();
  await locked`commit`;
  locked.release();
  await done;
  assert.equal(lane.deliveries.queued, 0);
  assert.equal(lane.deliveries.isEmpty, false, 'it is loaded, and waits');
});

/** A pool whose statements are collected. */
async function collecting(t: { after: (end: () => Promise<void>) => void }) {
  const { address, sql } = await testDatabase();
  const statements: string[] = [];
  const onQuery = (statement: string) => void statements.push(statement);
  const own = openPool(address, { connections: 4, applicationName: 'test-fetcher', onQuery });
  t.after(() => own.end({ timeout: 0 }));
  const countOf = (part: string) => statements.filter((statement) => statement.includes(part)).length;
  return { engine: await startEngine({ sql }), sql: own, countOf };
}

test('lanes of many shards that are requested together share their statements', async (t) => {
  const LANES = 40;
  const { engine, sql, countOf } = await collecting(t);
  const filled = new Set<Lane>();
  const requests = fetcherOf(t, engine, { sql, onFilled: (lane) => void filled.add(lane) });
  // None of the webhooks exists, so their pending deliveries would have to be ended.
  for (let shard = 0; shard < LANES; shard += 1) requests.add(laneOf(idOf(1, shard)));
  await until(
    async () => filled.size,
    (count) => count === LANES,
  );
  assert.deepEqual([countOf('w.encryption_key'), countOf('lane.max_rows')], [1, 1]);
});

test('a lane whose deliveries are ended in the database delays no other, and runs one such statement', async (t) => {
  const { engine, sql, countOf } = await collecting(t);
  const filled = new Set<Lane>();
  const owner = { workerId: 7, fenceOf: () => 1 };
  const requests = fetcherOf(t, engine, { ...owner, sql, onFilled: (lane) => void filled.add(lane) });
  const fill = async (lane: Lane): Promise<void> => {
    requests.add(lane);
    await until(async () => filled.has(lane), Boolean);
  };
  const ending = laneOf(await engine.addWebhook('http://127.0.0.1:1/'));
  ending.applySettings({ isActive: false, epoch: 1 });
  ending.oldEpochsFrom = new Date(0);
  const locked = await engine.sql.reserve();
  await locked`begin`;
  await locked`lock table shard_lease in access exclusive mode`;
  requests.add(ending);
  await fill(laneOf(idOf(9, 3)));
  requests.add(ending);
  await fill(laneOf(idOf(9, 4)));
  assert.deepEqual([filled.has(ending), countOf('from shard_lease')], [false, 1]);
  await locked`commit`;
  locked.release();
  await until(async () => filled.has(ending), Boolean);
});

test('lanes that are always requested again do not delay others', async (t) => {
  const engine = await startEngine();
  const { promise: served, resolve: serve } = Promise.withResolvers<boolean>();
  const GREEDY = [1, 2, 3, 4];
  /** Requested before and after the others. */
  const waiting = new Set([5, 6]);
  let fed = 0;
  const requests = fetcherOf(t, engine, {
    onFilled: (lane) => {
      fed += 1;
      if (waiting.delete(lane.shard) && waiting.size === 0) serve(true);
      if (!GREEDY.includes(lane.shard)) return;
      // Far more than a round of each, even while the statement of another batch waits for a connection: a lane not served by then is
      // never served.
      if (fed > 20_000) return serve(false);
      lane.deliveries.markIncomplete();
      requests.add(lane, false);
    },
  });
  for (const shard of [5, ...GREEDY, 6]) {
    for (let n = 1; n <= (GREEDY.includes(shard) ? 60 : 1); n += 1) requests.add(laneOf(idOf(n, shard)), false);
  }
  assert.equal(await served, true);
});

test('after an internal fault while lanes are filled, they are served again', async (t) => {
  const engine = await startEngine();
  const lane = laneOf(await engine.addWebhook('http://127.0.0.1:1/'));
  let filled = 0;
  const errors: string[] = [];
  const log = createLog('error', { write: (line) => void errors.push(line) });
  const onFilled = () => {
    filled += 1;
    if (filled === 1) throw new Error('an internal fault');
  };
  const requests = fetcherOf(t, engine, { log, onFilled });
  requests.add(lane);
  await until(
    async () => errors.length,
    (count) => count === 1,
  );
  lane.discardSettings();
  requests.add(lane);
  await until(
    async () => filled,
    (count) => count === 2,
  );
});

const row = (webhookId: number, eventId: number) => ({
  id: eventId * 100 + webhookId,
  storeId: 1,
  webhookId,
  epoch: 0,
  eventId,
  attempts: 0,
  faults: 0,
  dueAt: new Date(0),
});

test('bodies are read round-robin over the webhooks', () => {
  const rows = [row(1, 10), row(1, 11), row(1, 12), row(2, 20), row(2, 21), row(3, 30)];
  const order = roundRobin(rows).map(({ eventId }) => eventId);
  assert.deepEqual(order, [10, 20, 30, 11, 21, 12]);
});
