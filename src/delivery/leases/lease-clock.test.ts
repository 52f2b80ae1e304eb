/** A lease ends by the monotonic clock: after a late confirmation, and whatever the wall clock shows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { createLog } from '#core/log.ts';
import type { Sql } from '#db/pool.ts';
import { cleanups, type Cleanups } from '../../../test/setup/cleanups.ts';
import { NEVER_QUIET, standingClock, type TestClock } from '../../../test/setup/clock.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import { createShardMetrics } from '../delivery-metrics.ts';
import type { ShardEvents } from './balance.ts';
import { Ownership } from './ownership.ts';

/** Heartbeats are sent in real time. The lease expires by a clock that the test advances. */
const settings = { workerId: 1, leaseMs: 10_000, leaseMarginMs: 2_500, beatMs: 40 };

// A late confirmation

test('shards taken before a lapse of the lease are not used after it: another worker may have owned them meanwhile', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const held = new Set<number>();
  const clock = standingClock();
  const ownership = new Ownership(
    { direct: sql, clock, pace: NEVER_QUIET, log: createLog('silent') },
    settings,
    createShardMetrics(new Registry()),
  );
  const work: ShardEvents = {
    gained: (shards) => shards.forEach((shard) => held.add(shard)),
    lost: (shards) => shards.forEach((shard) => held.delete(shard)),
    drain: async (shards) => [...shards],
    kept: () => {},
    isRecording: () => false,
  };
  await sql`update shard_lease set owner = 1, fence = 7 where shard = 3`;
  // The take-over waits for a lock that this test holds.
  await sql.unsafe(`
    create function waits() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(7); return null; end $$;
    create trigger waits before update on shard_lease for each statement execute function waits()`);
  const advisory = await sql.reserve();
  await advisory`select pg_advisory_lock(7)`;
  ends.after(() => ownership.stop());
  ownership.start(work);
  await until(
    () => advisory`select from pg_locks where locktype = 'advisory' and not granted`,
    ({ length }) => length === 1,
  );
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`lock table worker in access exclusive mode`;
  clock.advance(settings.leaseMs - settings.leaseMarginMs);
  assert.equal(ownership.isLeaseConfirmed(), false);
  await blocker`rollback`;
  blocker.release();
  await until(async () => ownership.isLeaseConfirmed(), Boolean);
  await advisory`select pg_advisory_unlock(7)`;
  advisory.release();
  await until(async () => held.has(3), Boolean);
  assert.ok((ownership.fenceOf(3) ?? 0) > 8, 'the fencing token from before the silence is 8');
});

// Steps of the wall clock

const stepped = { leaseMs: 1_000, leaseMarginMs: 250, beatMs: 50, workerId: 1 };
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
    stepped,
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
  clock.advance(stepped.leaseMs + 1);
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
    clock.advance(stepped.leaseMs - stepped.leaseMarginMs);
    await owns(ownership, 0);
    assert.equal(ownership.isLeaseConfirmed(), false);
  } finally {
    await blocker`rollback`;
    blocker.release();
  }
});
