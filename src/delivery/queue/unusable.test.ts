import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shardOf } from '#core/ids.ts';
import { startEngine } from '../../../test/setup/engine.ts';
import { countFaults, type Position } from './queue-sql.ts';

const FENCE = 5;

test('only the shard owner counts a fault, once per due delivery, and not for one that is about to end', async () => {
  const engine = await startEngine();
  const { sql } = engine;
  const webhookId = await engine.addWebhook('http://127.0.0.1:9/');
  const shard = shardOf(webhookId);
  await sql`update shard_lease set owner = 7, fence = ${FENCE} where shard = ${shard}`;
  await engine.publish([1, 2, 3, 4, 5]);
  const now = new Date();
  // Due now, to the microsecond: the cursor continues by id.
  await sql`update delivery set due_at = ${now}::timestamptz - interval '999 us'`;
  await sql`update delivery set due_at = ${now}::timestamptz + interval '1 second' where id = (select max(id) from delivery)`;
  await sql`update delivery set faults = 12 where id = (select min(id) from delivery)`;
  const hour = { webhookId, after: null, faults: 3, most: 12, limit: 3 };
  const count = (worker: number, fence: number, after: Position | null) =>
    countFaults(sql, worker, { shard, fence }, { ...hour, after }, now);
  assert.equal((await count(7, FENCE - 1, null)).seen, 0);
  assert.equal((await count(8, FENCE, null)).seen, 0);
  const first = await count(7, FENCE, null);
  const second = await count(7, FENCE, first.last);
  const third = await count(7, FENCE, second.last);
  assert.deepEqual([first.seen, second.seen, third.seen], [3, 1, 0]);
  const rows = await sql<{ faults: number }[]>`select faults from delivery order by id`;
  assert.deepEqual(
    rows.map(({ faults }) => faults),
    [12, 3, 3, 3, 0],
  );
});
