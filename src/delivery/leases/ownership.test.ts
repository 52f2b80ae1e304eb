import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { openPool, type Queryable, type Sql } from '#db/pool.ts';
import { createLog } from '#core/log.ts';
import { NEVER_QUIET, standingClock } from '../../../test/setup/clock.ts';
import { cleanups, type Cleanups } from '../../../test/setup/cleanups.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { readExposition } from '../../../test/setup/exposition.ts';
import { until } from '../../../test/setup/until.ts';
import { createShardMetrics } from '../delivery-metrics.ts';
import { OwnedShards, Ownership } from './ownership.ts';
import { HandBack, type ShardEvents } from './balance.ts';
import { beat, takeShards } from './leases-sql.ts';

/** Heartbeats are sent in real time. Leases expire by a clock that the tests advance. */
const settings = { leaseMs: 4_000, leaseMarginMs: 1_000, beatMs: 40 };

function startOwner(sql: Sql, workerId: number, ends: Cleanups, beatMs = settings.beatMs) {
  const held = new Set<number>();
  const lost: number[] = [];
  const registry = new Registry();
  const clock = standingClock();
  const ownership = new Ownership(
    { direct: sql, clock, pace: NEVER_QUIET, log: createLog('silent') },
    { ...settings, beatMs, workerId },
    createShardMetrics(registry),
  );
  const work: ShardEvents = {
    gained: (shards) => shards.forEach((shard) => held.add(shard)),
    lost: (shards) => {
      lost.push(...shards);
      for (const shard of shards) held.delete(shard);
    },
    drain: async (shards) => [...shards],
    kept: () => {},
    isRecording: () => false,
  };
  ownership.start(work);
  ends.after(() => ownership.stop());
  const counted = async () => {
    const { value } = readExposition(await registry.metrics());
    const by = (name: string, cause: string) => value(`halcyon_shards_${name}_total`, { cause }) ?? 0;
    return { free: by('taken', 'free'), own: by('taken', 'own'), silent: by('lost', 'silent') };
  };
  return { ownership, held, lost, counted, clock };
}

/** A silent worker owns all of a few shards except one free one: a worker that takes that one has seen the silent worker, too. */
const FEW = 8;
const FREE = 5;
async function addSilentRival(sql: Sql): Promise<void> {
  await sql`insert into worker (id, beat, date_started) values (9, 1, now())`;
  await sql`delete from shard_lease where shard >= ${FEW}`;
  await sql`update shard_lease set owner = 9, fence = 7 where shard <> ${FREE}`;
}
const holds = (held: ReadonlySet<number>, count: number) =>
  until(
    async () => held.size,
    (size) => size === count,
  );
const seesRival = ({ held }: { held: ReadonlySet<number> }) => until(async () => held.has(FREE), Boolean);

/** Resolves when worker 1 has started and confirmed a heartbeat since this call. */
async function confirmsBeats(sql: Queryable, beats = 3): Promise<void> {
  const count = async () => (await sql<{ beat: number }[]>`select beat from worker where id = 1`)[0]?.beat ?? 0;
  const before = await count();
  await until(count, (now) => now >= before + beats);
}

async function countsOf(sql: Sql): Promise<Record<string, number>> {
  const rows = await sql<{ owner: number | null; count: number }[]>`
    select owner, count(*) as count from shard_lease group by owner`;
  return Object.fromEntries(rows.map(({ owner, count }) => [String(owner), count]));
}

test('one worker takes all shards, a second one half of them, and the shards of a leaving worker come back', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const first = startOwner(sql, 1, ends);
  await holds(first.held, 256);
  const second = startOwner(sql, 2, ends);
  await until(
    () => countsOf(sql),
    (counts) => counts['1'] === 128 && counts['2'] === 128,
  );
  await until(
    async () => [first.held.size, second.held.size],
    ([a, b]) => a === 128 && b === 128,
  );
  assert.deepEqual(
    [...first.held].filter((shard) => second.held.has(shard)),
    [],
  );
  await second.ownership.stop();
  await holds(first.held, 256);
});

test('the shards of a worker whose counter stands still are taken, with a higher fencing token', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  await addSilentRival(sql);
  const owner = startOwner(sql, 1, ends);
  const { held, ownership, clock } = owner;
  await seesRival(owner);
  clock.advance(settings.leaseMs);
  await confirmsBeats(sql, 5);
  assert.equal(ownership.fenceOf(0), undefined, 'not before a whole lease on our own clock');
  clock.advance(1);
  await holds(held, FEW);
  assert.equal(ownership.fenceOf(0), 8);
  const workers = await until(
    () => sql`select id from worker`,
    (rows) => rows.length === 1,
  );
  assert.deepEqual(
    workers.map(({ id }) => id),
    [1],
  );
});

test('the shards of a worker whose session has ended are taken after a tenth of a lease', async () => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  await addSilentRival(sql);
  const session = openPool(address, { connections: 1, applicationName: 'rival' });
  await beat(session, 9, new Date());
  const owner = startOwner(sql, 1, ends);
  await seesRival(owner);
  const { held, clock } = owner;
  clock.advance(settings.leaseMs);
  await confirmsBeats(sql);
  assert.deepEqual([...held], [FREE], 'its session still exists');
  await session.end();
  await beat(sql, 9, new Date());
  await sql`update worker set backend_pid = pid, backend_started = backend_start - interval '1 s'
    from pg_stat_get_activity(pg_backend_pid()) where id = 9`;
  await confirmsBeats(sql);
  clock.advance(settings.leaseMs / 10);
  await confirmsBeats(sql);
  assert.deepEqual([...held], [FREE]);
  clock.advance(1);
  await holds(held, FEW);
});

test('a worker whose session was ended beats at once with another one', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const { held } = startOwner(sql, 1, ends, 3_600_000);
  await holds(held, 256);
  const sessions = () => sql<{ pid: number }[]>`select backend_pid as pid from worker where id = 1`;
  const [before] = await sessions();
  if (before === undefined) throw new Error('The worker has no row');
  await sql`select pg_terminate_backend(${before.pid})`;
  await until(sessions, ([after]) => after !== undefined && after.pid !== before.pid);
  assert.equal(held.size, 256);
});

test('a worker that cannot confirm its heartbeat gives up before another may take over, and recovers by itself', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const { held, ownership, counted, clock } = startOwner(sql, 1, ends);
  await holds(held, 256);
  const before = ownership.fenceOf(3) ?? 0;
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`lock table worker in access exclusive mode`;
  try {
    // No time has passed since the last confirmed heartbeat.
    clock.advance(settings.leaseMs - settings.leaseMarginMs - 1);
    assert.equal(ownership.isLeaseConfirmed(), true);
    clock.advance(1);
    assert.equal(ownership.isLeaseConfirmed(), false);
    await holds(held, 0);
  } finally {
    await blocker`rollback`;
    blocker.release();
  }
  await holds(held, 256);
  assert.ok((ownership.fenceOf(3) ?? 0) > before, 'results under the earlier token are rejected');
  const { free, own, silent } = await counted();
  assert.ok(own > 0);
  assert.equal(free + own - silent, 256, 'taken minus lost shards are the owned ones');
});

test('a report about an earlier ownership does not end the present one', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const { held, ownership, lost } = startOwner(sql, 1, ends);
  await holds(held, 256);
  const fence = ownership.fenceOf(3) ?? 0;
  ownership.lost(3, fence - 1);
  assert.deepEqual(lost, []);
  ownership.lost(3, fence);
  assert.deepEqual(lost, [3]);
});

test('a shard whose owner changed in the table is lost at the next heartbeat', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const { held, lost } = startOwner(sql, 1, ends);
  await holds(held, 256);
  await sql`update shard_lease set fence = fence + 1 where shard = 3`;
  await until(
    async () => lost,
    (shards) => shards.includes(3),
  );
  assert.deepEqual(lost, [3]);
});

test('ten long statements in the pool end no lease', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const { held, lost, clock } = startOwner(sql, 1, ends);
  await holds(held, 256);
  // The pool has ten connections: one holds the lock that the others wait for.
  const blocker = await sql.reserve();
  await blocker`select pg_advisory_lock(7)`;
  const long = Array.from({ length: 9 }, () => sql`select pg_advisory_xact_lock(7)`.execute());
  try {
    await until(
      () => blocker`select from pg_locks where locktype = 'advisory' and not granted`,
      ({ length }) => length === 9,
    );
    for (let passedMs = 0; passedMs < settings.leaseMs * 2.5; passedMs += settings.leaseMs / 2) {
      clock.advance(settings.leaseMs / 2);
      await confirmsBeats(blocker);
    }
  } finally {
    await blocker`select pg_advisory_unlock(7)`;
    blocker.release();
  }
  await Promise.all(long);
  assert.deepEqual(lost, []);
});

test('a heartbeat does not wait for a take-over that waits for a lock', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  await addSilentRival(sql);
  const owner = startOwner(sql, 1, ends);
  const { held, ownership, clock } = owner;
  await seesRival(owner);
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`select from shard_lease where shard <> ${FREE} for share`;
  try {
    clock.advance(settings.leaseMs + 1);
    await until(
      () => sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      ({ length }) => length === 1,
    );
    await confirmsBeats(sql, 30);
    assert.equal(ownership.isLeaseConfirmed(), true);
    assert.deepEqual(
      [...held].filter((shard) => shard !== FREE),
      [],
    );
  } finally {
    await blocker`rollback`;
    blocker.release();
  }
  await holds(held, FEW);
});

test('a locked shard row does not keep other shards from their new owner', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  await addSilentRival(sql);
  const vanished = await sql.reserve();
  await vanished`begin`;
  await vanished`select from shard_lease where shard = 3 for share`;
  const owner = startOwner(sql, 1, ends);
  const { held, clock } = owner;
  await seesRival(owner);
  clock.advance(settings.leaseMs + 1);
  try {
    await holds(held, FEW - 1);
    assert.equal(held.has(3), false);
  } finally {
    await vanished`rollback`;
    vanished.release();
  }
  await holds(held, FEW);
});

test('a stopping worker takes no more shards', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const { held, ownership } = startOwner(sql, 1, ends);
  await holds(held, 256);
  ownership.stopTaking();
  await sql`update shard_lease set owner = null where shard = 3`;
  await holds(held, 255);
  await confirmsBeats(sql, 6);
  assert.equal(held.size, 255);
});

test('a worker whose heartbeat resumes before a take-over keeps its shards', async () => {
  const { sql } = await testDatabase(cleanups());
  await sql`insert into worker (id, beat, date_started) values (9, 5, now())`;
  await sql`update shard_lease set owner = 9, fence = 7 where shard in (1, 2)`;
  await beat(sql, 9, new Date());
  assert.deepEqual([...(await takeShards(sql, 1, [1, 2], [{ id: 9, beat: 5 }]))], []);
  const [taken] = await takeShards(sql, 1, [2], [{ id: 9, beat: 6 }]);
  assert.equal(taken?.fence, 8);
});

test('shards of an owner without a worker row are taken like those of a dead worker', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  await sql`update shard_lease set owner = 9, fence = 7 where shard = 3`;
  const { held, ownership, clock } = startOwner(sql, 1, ends);
  // The half of one of two workers.
  await holds(held, 128);
  clock.advance(settings.leaseMs + 1);
  await holds(held, 256);
  assert.equal(ownership.fenceOf(3), 8);
});

function openHoldings() {
  const said: string[] = [];
  const log = createLog('warn', { write: (line) => void said.push((JSON.parse(line) as { msg: string }).msg) });
  const holdings = new OwnedShards(log, createShardMetrics(new Registry()));
  holdings.add(
    [1, 2, 3].map((shard) => ({ shard, fence: 1, crashCount: 0 })),
    () => 'free',
  );
  return { holdings, said };
}

test('a worker logs once why it aborts its running attempts', () => {
  for (const cause of ['silent', 'fenced'] as const) {
    const { holdings, said } = openHoldings();
    holdings.remove([1, 2], cause);
    holdings.remove([1, 2], cause);
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /running attempts are aborted/);
  }
});

test('handing shards back logs nothing', () => {
  const { holdings, said } = openHoldings();
  holdings.remove([1, 2, 3], 'returned');
  assert.deepEqual(said, []);
});

test('shards that could not be handed back are owned again, and notifications ignored meanwhile are made up for', async () => {
  const kept: number[] = [];
  const released: number[] = [];
  const handBack = new HandBack({
    log: createLog('silent'),
    release: async (shards) => {
      if (shards.includes(2)) throw new Error('the database is unavailable');
      released.push(...shards);
    },
    onFinished: () => {},
  });
  await handBack.start([1, 2, 3], {
    drain: async (shards) => shards.slice(0, 1),
    kept: (shards) => void kept.push(...shards),
  });
  assert.deepEqual(released, [1]);
  assert.deepEqual(kept, [2, 3]);
  assert.deepEqual([...handBack.inProgress], []);
});
