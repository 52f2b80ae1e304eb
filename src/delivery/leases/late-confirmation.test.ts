import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { createLog } from '#core/log.ts';
import { cleanups } from '../../../test/setup/cleanups.ts';
import { NEVER_QUIET, standingClock } from '../../../test/setup/clock.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import { createShardMetrics } from '../delivery-metrics.ts';
import type { ShardEvents } from './balance.ts';
import { Ownership } from './ownership.ts';

/** Heartbeats are sent in real time. The lease expires by a clock that the test advances. */
const settings = { workerId: 1, leaseMs: 10_000, leaseMarginMs: 2_500, beatMs: 40 };

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
