import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { dailyIdOf, dayOf } from '#core/ids.ts';
import { createLog } from '#core/log.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import type { Entry } from './policy/entry.ts';
import { createWarnings, type Notice } from './outcomes.ts';
import { createRecorder } from './record/record.ts';

const WORKER = 77;
const SHARD = 5;
const now = new Date();
const log = createLog('silent');

const { sql } = await testDatabase();
await sql`update shard_lease set owner = ${WORKER}, fence = 3 where shard = ${SHARD}`;

/** The outcome that takes webhook 517 halfway to being disabled, and the notices sent while it is recorded. */
async function start(fence: number) {
  const id = dailyIdOf(dayOf(now), fence, SHARD);
  const delivery = { id, storeId: 261, webhookId: 517, epoch: 0, eventId: id, attempts: 0, faults: 0, dueAt: now };
  await sql`
    insert into delivery (shard, id, store_id, webhook_id, epoch, event_id, due_at)
    values (${SHARD}, ${id}, 261, 517, 0, ${id}, ${now})`;
  const health = { consecutiveFailures: 6, firstFailureAt: now, isWarned: true };
  const entry: Entry = {
    shard: SHARD,
    fence,
    delivery,
    attempt: { startedAt: now, durationMs: 12, outcome: { kind: 'timed_out', phase: 'answer', reply: null } },
    attempts: 1,
    faults: 0,
    next: { state: 'failed' },
    webhook: { ...health, pausedUntil: null, probeAt: null, isPendingDisable: false },
    isWarning: true,
  };
  let current: number | undefined = fence;
  const fenceOf = () => current;
  const notices: Notice[] = [];
  const { record } = createRecorder(
    { sql, clock: systemClock, log },
    {
      ownership: { workerId: WORKER, fenceOf, lastFenceOf: fenceOf, lost: () => (current = undefined) },
      quarantine: { markers: new Map() },
      lanes: { isOrdered: () => false },
    },
    [createWarnings(log, (notice) => notices.push(notice))],
  );
  return { notices, record: () => new Promise<boolean>((resolve) => record(entry, resolve)) };
}

test('a store is warned after the warning is committed, not before', async () => {
  const { notices, record } = await start(3);
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`select from shard_lease where shard = ${SHARD} for update`;
  const recorded = record();
  const waiting = () => sql`
    select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  await until(waiting, (rows) => rows.length === 1);
  const countBefore = notices.length;
  await blocker`commit`;
  blocker.release();
  assert.equal(await recorded, true);
  assert.equal(countBefore, 0);
  assert.deepEqual(notices, [{ shard: SHARD, webhookId: 517, epoch: 0, about: 'warning' }]);
  const states = await sql`select is_warned from webhook_state where webhook_id = 517`;
  assert.deepEqual([...states], [{ is_warned: true }]);
});

test('a worker that lost the shard sends no warning; the next owner does', async () => {
  const { notices, record } = await start(2);
  assert.equal(await record(), false);
  assert.deepEqual(notices, []);
});
