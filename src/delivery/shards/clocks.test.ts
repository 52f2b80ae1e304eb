/** Wall clocks are stepped, by minutes and in either direction; nothing about leases may notice. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { Sql } from '#database/pool.ts';
import { systemClock, type Clock } from '#kernel/clock.ts';
import { createLog } from '#kernel/log.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { endings, type Endings } from '../../../test/setup/endings.ts';
import { until } from '../../../test/setup/until.ts';
import { createShardMetrics } from '../metrics/shards.ts';
import { Ownership } from './ownership.ts';

const settings = { leaseMs: 1_000, leaseMarginMs: 250, beatMs: 50, workerId: 1 };
const STEP_MS = 5 * 60_000;

/** A wall clock that is stepped each time somebody looks at it. */
const steppedBy = (stepMs: number): Clock => {
  let steppedMs = 0;
  return { now: () => new Date(Date.now() + (steppedMs += stepMs)), monotonicMs: systemClock.monotonicMs };
};

const startOwner = (sql: Sql, clock: Clock, ends: Endings): Ownership => {
  const ownership = new Ownership({
    direct: sql,
    clock,
    log: createLog('silent'),
    settings,
    metrics: createShardMetrics(new Registry()),
    onGained: () => {},
    onLost: () => {},
    drain: async (shards) => [...shards],
    onKept: () => {},
  });
  ownership.start();
  ends.after(() => ownership.stop());
  return ownership;
};

const owns = (ownership: Ownership, shards: number) =>
  until(
    async () => ownership.owned().length,
    (count) => count === shards,
    4 * settings.leaseMs,
  );

test('a rival is not taken for dead because our wall clock is stepped forward', async () => {
  const ends = endings();
  const { sql } = await testDatabase(ends);
  await sql`insert into worker (id, beat, date_started) values (9, 1, now())`;
  await sql`update shard_lease set owner = 9, fence = 7`;
  const startedMs = performance.now();
  await owns(startOwner(sql, steppedBy(STEP_MS), ends), 256);
  assert.ok(performance.now() - startedMs > settings.leaseMs);
});

test('a worker gives up in time though its wall clock is stepped back', async () => {
  const ends = endings();
  const { sql } = await testDatabase(ends);
  const ownership = startOwner(sql, steppedBy(-STEP_MS), ends);
  await owns(ownership, 256);
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`lock table worker in access exclusive mode`;
  try {
    await owns(ownership, 0);
    assert.equal(ownership.mayAct(), false);
  } finally {
    await blocker`rollback`;
    blocker.release();
  }
});
