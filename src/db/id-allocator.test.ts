import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SHARDS, dayOf, dayOfId, firstIdOfDay, NUMBERS_A_DAY, shardOf, startOfDay } from '#core/ids.ts';
import { EVENT_BLOCK, createIdAllocator, nextDeliveryId, readUsedNumbers, maintainPartitions } from './partitions.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { isOutOfNumbers } from './unavailable.ts';

const { sql } = await testDatabase();
const DAY = dayOf(new Date());
const of = (count: number, shard = 7) => ({ day: DAY, shards: Array.from({ length: count }, () => shard) });

// The ids of a process

test('ids are allocated in sequence without duplicates, across blocks and concurrent callers', async () => {
  const [allocateIds, other] = [createIdAllocator(), createIdAllocator()];
  const asked = [1, 2, 1, 2].map((shard, at) => (at < 2 ? allocateIds : other)(sql, of(1_000, shard)));
  const [one = [], two = [], three = [], four = []] = await Promise.all(asked);
  assert.equal(new Set([...one, ...three]).size, 2_000);
  assert.equal(new Set([...two, ...four]).size, 2_000);
  for (const taken of [one, two, three, four])
    assert.deepEqual(
      taken,
      taken.toSorted((a, b) => a - b),
    );
});

test('a transaction allocates ids while the pool has no free connection', async () => {
  const allocateIds = createIdAllocator();
  const waiting = Promise.withResolvers<void>();
  await sql.begin(async (tx) => {
    const others = await Promise.all(Array.from({ length: 9 }, () => sql.reserve()));
    const late = allocateIds(sql, of(1));
    const [number] = await allocateIds(tx, of(1), 'inTransaction');
    assert.equal(typeof number, 'number');
    for (const one of others) one.release();
    void late.then(() => waiting.resolve());
  });
  await waiting.promise;
});

test('the rest of a block is discarded after five seconds, so that ids rise with time across all writers', async () => {
  let nowMs = 0;
  const [quiet, busy] = [createIdAllocator(() => nowMs), createIdAllocator(() => nowMs)];
  await quiet(sql, of(1));
  await busy(sql, of(3_000));
  nowMs = 6_000;
  const [late = 0] = await quiet(sql, of(1));
  const [before = 0] = (await busy(sql, of(1))).slice(-1);
  assert.ok(late > before - 2 * EVENT_BLOCK * SHARDS, `${late} beside ${before}`);
});

// The numbers of a day

async function nextId(day: number): Promise<number> {
  const [row] = await sql<{ id: number }[]>`select ${nextDeliveryId(sql, day, sql`${7}::smallint`)} as id`;
  assert.ok(row !== undefined);
  return row.id;
}

test('a day has ids up to its last number, then an error; the next day starts with its own', async () => {
  const day = 9_001;
  await maintainPartitions(sql, { now: startOfDay(day), retentionDays: 10_000, daysAhead: 1 });
  await sql`select setval(${`delivery_n_d${day}`}::regclass, ${NUMBERS_A_DAY - 2}::bigint)`;
  const last = await nextId(day);
  assert.deepEqual([dayOfId(last), dayOfId(last + 256), shardOf(last)], [day, day + 1, 7]);
  assert.equal((await readUsedNumbers(sql, day)).get('delivery'), (NUMBERS_A_DAY - 1) / NUMBERS_A_DAY);
  await assert.rejects(nextId(day), isOutOfNumbers);
  assert.equal(await nextId(day + 1), firstIdOfDay(day + 1) + 7);
});
