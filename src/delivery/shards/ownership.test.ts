import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Sql } from '#database/pool.ts';
import { systemClock } from '#kernel/clock.ts';
import { createLog } from '#kernel/log.ts';
import { endings, type Endings } from '../../../test/setup/endings.ts';
import { testDatabase } from '../../../test/setup/database.ts';
import { until } from '../../../test/setup/until.ts';
import { Ownership } from './ownership.ts';
import { fairShare, Rivals } from './rivals.ts';

const settings = { leaseMs: 400, leaseMarginMs: 100, beatMs: 40 };

const startOwner = (sql: Sql, workerId: number, ends: Endings) => {
  const held = new Set<number>();
  const lost: number[] = [];
  const ownership = new Ownership({
    sql,
    clock: systemClock,
    log: createLog('silent'),
    settings: { ...settings, workerId },
    onGained: (shards) => shards.forEach((shard) => held.add(shard)),
    onLost: (shards) => {
      lost.push(...shards);
      for (const shard of shards) held.delete(shard);
    },
    drain: async () => {},
  });
  ownership.start();
  ends.after(() => ownership.stop());
  return { ownership, held, lost };
};

const countsOf = async (sql: Sql): Promise<Record<string, number>> => {
  const rows = await sql<{ owner: number | null; count: number }[]>`
    select owner, count(*) as count from shard_lease group by owner`;
  return Object.fromEntries(rows.map(({ owner, count }) => [String(owner), count]));
};

test('one worker takes all shards, a second one half of them, and what it leaves comes back', async () => {
  const ends = endings();
  const { sql } = await testDatabase(ends);
  const first = startOwner(sql, 1, ends);
  await until(
    async () => first.held.size,
    (size) => size === 256,
  );
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
  await until(
    async () => first.held.size,
    (size) => size === 256,
  );
});

test('the shards of a worker whose counter stands still are taken, with a higher fence', async () => {
  const ends = endings();
  const { sql } = await testDatabase(ends);
  await sql`insert into worker (id, beat, date_started) values (9, 1, now())`;
  await sql`update shard_lease set owner = 9, fence = 7`;
  const startedMs = performance.now();
  const { held, ownership } = startOwner(sql, 1, ends);
  await until(
    async () => held.size,
    (size) => size === 256,
  );
  assert.ok(performance.now() - startedMs > settings.leaseMs, 'not before a whole lease on our own clock');
  assert.equal(ownership.fenceOf(0), 8);
  const workers = await until(
    () => sql`select id from worker`,
    (rows) => rows.length === 1,
  );
  assert.deepEqual(
    workers.map(({ id }) => id as unknown),
    [1],
  );
});

test('a worker that cannot confirm its beat gives up before a rival may take over, and comes back by itself', async () => {
  const ends = endings();
  const { sql } = await testDatabase(ends);
  const { held, ownership } = startOwner(sql, 1, ends);
  await until(
    async () => held.size,
    (size) => size === 256,
  );
  const blocker = await sql.reserve();
  await blocker`begin`;
  await blocker`lock table worker in access exclusive mode`;
  const startedMs = performance.now();
  try {
    await until(
      async () => held.size,
      (size) => size === 0,
      settings.leaseMs * 3,
    );
    assert.equal(ownership.mayAct(), false);
    assert.ok(performance.now() - startedMs < settings.leaseMs, 'before the lease is over');
  } finally {
    await blocker`rollback`;
    blocker.release();
  }
  await until(
    async () => held.size,
    (size) => size === 256,
  );
});

test('a shard that changed hands behind our back is lost at the next beat', async () => {
  const ends = endings();
  const { sql } = await testDatabase(ends);
  const { held, lost } = startOwner(sql, 1, ends);
  await until(
    async () => held.size,
    (size) => size === 256,
  );
  await sql`update shard_lease set fence = fence + 1 where shard = 3`;
  await until(
    async () => lost,
    (shards) => shards.includes(3),
  );
  assert.deepEqual(lost, [3]);
});

test('a rival is dead when its counter stood still for a lease on our own clock', () => {
  const rivals = new Rivals(1, 1_000);
  rivals.observe(
    [
      { id: 1, beat: 5 },
      { id: 2, beat: 5 },
    ],
    0,
  );
  rivals.observe(
    [
      { id: 1, beat: 5 },
      { id: 2, beat: 5 },
    ],
    1_000,
  );
  assert.deepEqual(rivals.dead(1_000), []);
  assert.deepEqual(rivals.dead(1_001), [2]);
  assert.equal(rivals.living(1_001), 1);
  rivals.observe([{ id: 2, beat: 6 }], 1_001);
  assert.deepEqual(rivals.dead(1_900), []);
  assert.equal(rivals.living(1_900), 2);
});

test('the share is even and leaves nothing over', () => {
  assert.deepEqual(
    [1, 2, 3, 300].map((living) => fairShare(256, living)),
    [256, 128, 86, 1],
  );
});
