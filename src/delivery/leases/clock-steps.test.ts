/** Wall clocks are stepped, by minutes and in either direction; leases must not be affected. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import type { Sql } from '#db/pool.ts';
import { createLog } from '#core/log.ts';
import { NEVER_QUIET, standingClock, type TestClock } from '../../../test/setup/clock.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { cleanups, type Cleanups } from '../../../test/setup/cleanups.ts';
import { until } from '../../../test/setup/until.ts';
import { createShardMetrics } from '../delivery-metrics.ts';
import type { ShardEvents } from './balance.ts';
import { Ownership } from './ownership.ts';

const settings = { leaseMs: 1_000, leaseMarginMs: 250, beatMs: 50, workerId: 1 };
const STEP_MS = 5 * 60_000;

/** Its wall clock is stepped each time it is read, and only `advance` makes time pass. */
function steppedBy(stepMs: number): TestClock {
  const clock = standingClock();
  let steppedMs = 0;
  return { ...clock, now: () => new Date(clock.now().getTime() + (steppedMs += stepMs)) };
}

function startOwner(sql: Sql, clock: TestClock, ends: Cleanups): Ownership {
  const ownership = new Ownership(
    { direct: sql, clock, pace: NEVER_QUIET, log: createLog('silent') },
    settings,
    createShardMetrics(new Registry()),
  );
  const work: ShardEvents = {
    gained: () => {},
    lost: () => {},
    drain: async (shards) => [...shards],
    kept: () => {},
    isRecording: () => false,
  };
  ownership.start(work);
  ends.after(() => ownership.stop());
  return ownership;
}

const owns = (ownership: Ownership, shards: number) =>
  until(
    async () => ownership.owned().length,
    (count) => count === shards,
  );

test('a worker is not considered dead because our wall clock is stepped forward', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  await sql`insert into worker (id, beat, date_started) values (9, 1, now())`;
  await sql`update shard_lease set owner = 9, fence = 7 where shard <> 5`;
  const clock = steppedBy(STEP_MS);
  const ownership = startOwner(sql, clock, ends);
  await owns(ownership, 1);
  const beats = async () => (await sql<{ beat: number }[]>`select beat from worker where id = 1`)[0]?.beat ?? 0;
  const before = await beats();
  await until(beats, (count) => count > before + 10);
  assert.deepEqual(ownership.owned(), [5]);
  clock.advance(settings.leaseMs + 1);
  await owns(ownership, 256);
});

test('a worker gives up its shards in time although its wall clock is stepped back', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const clock = steppedBy(-STEP_MS);
  const ownership = startOwner(sql, clock, ends);
  await owns(ownership, 256);
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`lock table worker in access exclusive mode`;
  try {
    clock.advance(settings.leaseMs - settings.leaseMarginMs);
    await owns(ownership, 0);
    assert.equal(ownership.isLeaseConfirmed(), false);
  } finally {
    await blocker`rollback`;
    blocker.release();
  }
});
