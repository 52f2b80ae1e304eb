/** Quiet workers send no heartbeats. They begin again together, and none considers another one dead that was quiet. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { createLog } from '#core/log.ts';
import { Pace } from '#core/lifecycle.ts';
import { announceWhileWorking, oneOf, type Sql } from '#db/pool.ts';
import { standingClock, type PassingClock } from '../../../test/setup/clock.ts';
import { cleanups, type Cleanups } from '../../../test/setup/cleanups.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { readExposition } from '../../../test/setup/exposition.ts';
import { until } from '../../../test/setup/until.ts';
import { listenForChanges } from '../announce.ts';
import { createShardMetrics } from '../delivery-metrics.ts';
import type { ShardEvents } from './balance.ts';
import { Ownership } from './ownership.ts';

const settings = { leaseMs: 4_000, leaseMarginMs: 1_000, beatMs: 40 };
const QUIET_MS = 60_000;
const HALF = 128;
const HOUR_MS = 3_600_000;
const STEP_MS = 500;

type OwnerOptions = { id: number; clock: PassingClock; paceClock: PassingClock; announceEveryMs?: number };

/** `clock` is that of the leases, `paceClock` that of the quiet times. Unless the test says so, work is announced after a quiet time only. */
async function startOwner(sql: Sql, { id, clock, paceClock, announceEveryMs = HOUR_MS }: OwnerOptions, ends: Cleanups) {
  const pace = new Pace(paceClock);
  const registry = new Registry();
  const runtime = { direct: sql, clock, pace, log: createLog('silent') };
  const ownership = new Ownership(runtime, { ...settings, workerId: id }, createShardMetrics(registry));
  const ignore = () => {};
  const handlers = { onWork: ignore, onWebhook: ignore, onRetry: ignore, onEvents: ignore, onMissed: ignore };
  const listening = await listenForChanges(sql, handlers, { silenceMs: QUIET_MS, pace });
  const announcing = announceWhileWorking(sql, pace, announceEveryMs);
  const work: ShardEvents = {
    gained: ignore,
    lost: ignore,
    drain: async (shards) => [...shards],
    kept: ignore,
    isRecording: () => false,
  };
  ownership.start(work);
  ends.after(async () => {
    await ownership.stop();
    await announcing.stop();
    await listening.stop();
  });
  const counted = async () => {
    const { value } = readExposition(await registry.metrics());
    const lost = (cause: string) => value('halcyon_shards_lost_total', { cause });
    return {
      takenFromDead: value('halcyon_shards_taken_total', { cause: 'dead' }),
      quiet: lost('quiet'),
      silent: lost('silent'),
    };
  };
  const tokens = () => ownership.owned().map((shard) => ownership.fenceOf(shard) ?? assert.fail());
  return { ownership, pace, counted, tokens };
}
type Owner = Awaited<ReturnType<typeof startOwner>>;

const owns = ({ ownership }: Owner, shards: number) =>
  until(
    async () => (ownership.isLeaseConfirmed() ? ownership.owned().length : 0),
    (count) => count === shards,
  );
/** Lets minutes pass: the announcement of the last work may arrive late, and begins a minute of its own. */
const becomesQuiet = ({ ownership }: Owner, paceClock: PassingClock) =>
  until(
    async () => {
      if (!ownership.isQuiet) paceClock.advance(QUIET_MS);
      return ownership.isQuiet;
    },
    (isQuiet) => isQuiet,
  );

async function startTwo(options: Pick<OwnerOptions, 'announceEveryMs'> = {}) {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const [clock, paceClock] = [standingClock(), standingClock()];
  const one = await startOwner(sql, { id: 1, clock, paceClock, ...options }, ends);
  await owns(one, 2 * HALF);
  const other = await startOwner(sql, { id: 2, clock, paceClock, ...options }, ends);
  for (const owner of [one, other]) await owns(owner, HALF);
  const beats = async () => {
    const rows = await sql<{ beat: number }[]>`select beat from worker order by id`;
    return rows.map(({ beat }) => beat);
  };
  return { clock, paceClock, one, other, beats };
}

test('two quiet workers send no heartbeats, and after work of one of them both have the shards they had', async () => {
  const { clock, paceClock, one, other, beats } = await startTwo();
  for (const owner of [one, other]) await becomesQuiet(owner, paceClock);
  const before = await beats();
  for (let round = 0; round < 3; round += 1) {
    clock.advance(QUIET_MS);
    for (const owner of [one, other]) await becomesQuiet(owner, paceClock);
  }
  assert.deepEqual(await beats(), before);
  await one.pace.work();
  for (const owner of [one, other]) await owns(owner, HALF);
  const [first = 0, second = 0] = before;
  await until(beats, ([a = 0, b = 0]) => a > first + 3 && b > second + 3);
  for (const owner of [one, other]) assert.equal((await owner.counted()).takenFromDead, 0);
});

test('while one worker has work no other is quiet, and all become quiet together', async () => {
  const { clock, paceClock, one, other } = await startTwo({ announceEveryMs: settings.beatMs });
  const isAtWork = ({ ownership, pace }: Owner) => ownership.isLeaseConfirmed() && !pace.isQuiet;
  // The leases count by the same clock: each step waits for heartbeats.
  const pass = async (ms: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += STEP_MS) {
      clock.advance(STEP_MS);
      paceClock.advance(STEP_MS);
      for (const owner of [one, other]) if (!owner.pace.isQuiet) await owns(owner, HALF);
    }
  };
  for (let round = 0; round < 4; round += 1) {
    await one.pace.work();
    await pass(25_000);
    assert.deepEqual([one, other].map(isAtWork), [true, true], `round ${round}`);
  }
  await until(
    async () => {
      await pass(STEP_MS);
      return [one, other].every(({ ownership }) => ownership.isQuiet);
    },
    (areQuiet) => areQuiet,
  );
  for (const owner of [one, other]) assert.equal((await owner.counted()).takenFromDead, 0);
});

test('a quiet worker that sends no heartbeats after work of another is dead after the time of a lease', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  // Frozen, with half of the shards.
  await sql`insert into worker (id, beat, date_started) values (9, 1, now())`;
  await sql`update shard_lease set owner = 9, fence = 7 where shard < ${HALF}`;
  const [clock, paceClock] = [standingClock(), standingClock()];
  const one = await startOwner(sql, { id: 1, clock, paceClock }, ends);
  await owns(one, HALF);
  await becomesQuiet(one, paceClock);
  clock.advance(QUIET_MS);
  await one.pace.work();
  await owns(one, HALF);
  const beats = async () => (await oneOf(sql<{ beat: number }[]>`select beat from worker where id = 1`)).beat;
  const before = await beats();
  await until(beats, (now) => now > before + 10);
  assert.equal(one.ownership.owned().length, HALF);
  await until(
    async () => {
      clock.advance(500);
      return one.ownership.owned().length;
    },
    (count) => count === 2 * HALF,
  );
  assert.equal((await one.counted()).takenFromDead, HALF);
});

test('after a quiet time longer than its lease a worker has its shards under new tokens: another one may have had them', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const [clock, paceClock] = [standingClock(), standingClock()];
  const one = await startOwner(sql, { id: 1, clock, paceClock }, ends);
  await owns(one, 2 * HALF);
  const before = one.tokens();
  await becomesQuiet(one, paceClock);
  await one.pace.work();
  await owns(one, 2 * HALF);
  assert.deepEqual(one.tokens(), before, 'the lease had not ended');
  await becomesQuiet(one, paceClock);
  clock.advance(settings.leaseMs);
  await one.pace.work();
  await owns(one, 2 * HALF);
  assert.deepEqual(
    one.tokens(),
    before.map((token) => token + 1),
  );
  const { quiet, silent } = await one.counted();
  assert.deepEqual([quiet, silent], [2 * HALF, 0]);
});
