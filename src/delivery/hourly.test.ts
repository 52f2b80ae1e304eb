import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Registry } from '@prometheus-io/client';
import { systemClock } from '#core/clock.ts';
import { bucketOf, emptyHistogram } from '#core/histogram.ts';
import { createLog } from '#core/log.ts';
import { testDatabase } from '../../test/setup/database.ts';
import type { Outcome } from './attempt/http/attempt-outcome.ts';
import { createEngineMetrics } from './delivery-metrics.ts';
import { HourlyStats } from './outcomes.ts';
import { ended, deadLetter, type Entry } from './policy/entry.ts';
import { createRecorder } from './record/record.ts';
import { createDeliveryPurges } from './delivery-purges.ts';
import { addHours } from './delivery-sql.ts';

const SHARD = 5;
const reply = { code: 500, headers: '', body: 'no' };
const DELIVERED: Outcome = { kind: 'delivered', reply: { ...reply, code: 204 } };
const OUTCOMES: readonly Outcome[] = [
  DELIVERED,
  { kind: 'refused', reply, retryAfterMs: 0 },
  { kind: 'timed_out', phase: 'connect', reply: null },
];

const { sql } = await testDatabase();
const log = createLog('silent');
const statsWith = (hourlyStatsRows = 1_000) =>
  new HourlyStats({ sql, log }, { hourlyStatsEveryMs: 60_000, hourlyStatsRows });

const idOf = (n: number): number => n * 256 + SHARD;
const HOUR_MS = 3_600_000;
const at = (hour: number, ms = 0): Date => new Date(Date.UTC(2026, 6, 1) + hour * HOUR_MS + ms);

function entryOf(webhookId: number, startedAt: Date, outcome: Outcome = DELIVERED, durationMs = 12): Entry {
  const delivery = { id: 1, storeId: 261, webhookId, epoch: 0, eventId: 1, attempts: 0, faults: 0, dueAt: startedAt };
  const attempt = { startedAt, durationMs, outcome };
  return { ...ended({ shard: SHARD, fence: 1 }, delivery), attempt, attempts: 1 };
}

const hoursOf = (webhookIds: readonly number[]) => sql<{ key: string; attempts: number; durations: number[] }[]>`
  select webhook_id || ' ' || to_char(hour at time zone 'UTC', 'HH24:MI') || ' ' || outcome as key, attempts, durations
  from webhook_hour where shard = ${SHARD} and webhook_id = any(${webhookIds as number[]}) order by key`;

test('any order of attempts and of additions to the table gives the same sums', async () => {
  let next = 1;
  const attempt = fc.record({
    webhook: fc.integer({ min: 0, max: 2 }),
    worker: fc.integer({ min: 0, max: 1 }),
    minute: fc.integer({ min: 0, max: 179 }),
    outcome: fc.constantFrom(...OUTCOMES),
    durationMs: fc.integer({ min: 0, max: 40_000 }),
  });
  const flush = fc.record({ flush: fc.integer({ min: 0, max: 1 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof({ weight: 4, arbitrary: attempt }, flush), { maxLength: 60 }), async (steps) => {
      const ids = [0, 1, 2].map((n) => idOf(next + n));
      next += 3;
      const workers = [statsWith(), statsWith()];
      const expected = new Map<string, { attempts: number; durations: number[] }>();
      const flushed: Promise<void>[] = [];
      for (const step of steps) {
        // Not awaited: counts added during a flush belong to the next one.
        if ('flush' in step) flushed.push(workers[step.flush]?.flush() ?? Promise.resolve());
        else {
          const { webhook, worker, minute, outcome, durationMs } = step;
          const id = ids[webhook] ?? 0;
          workers[worker]?.add(entryOf(id, at(0, minute * 60_000), outcome, durationMs));
          const label = outcome.kind === 'timed_out' ? 'timed_out:connect' : outcome.kind;
          const key = `${id} 0${Math.floor(minute / 60)}:00 ${label}`;
          const sum = expected.get(key) ?? { attempts: 0, durations: emptyHistogram() };
          sum.attempts += 1;
          sum.durations[bucketOf(durationMs)] = (sum.durations[bucketOf(durationMs)] ?? 0) + 1;
          expected.set(key, sum);
        }
      }
      await Promise.all([...flushed, ...workers.map((worker) => worker.stop())]);
      const found = new Map((await hoursOf(ids)).map(({ key, attempts, durations }) => [key, { attempts, durations }]));
      assert.deepEqual(found, expected);
    }),
    { numRuns: 100 },
  );
});

test('a thousand attempts of ten webhooks are one statement', async () => {
  const ids = Array.from({ length: 10 }, (_, n) => idOf(10_000 + n));
  const stats = statsWith();
  for (let n = 0; n < 1_000; n += 1) stats.add(entryOf(ids[n % 10] ?? 0, at(1)));
  assert.deepEqual([...(await hoursOf(ids))], []);
  await stats.flush();
  const [counts] = await sql`
    select count(*) as rows, sum(attempts)::int as attempts, count(distinct xmin::text) as transactions
    from webhook_hour where webhook_id = any(${ids})`;
  assert.deepEqual({ ...counts }, { rows: 10, attempts: 1_000, transactions: 1 });
});

test('counts that the database refuses are kept, and added once when it accepts them', async () => {
  const id = idOf(20_000);
  const stats = statsWith();
  stats.add(entryOf(id, at(2)));
  await sql`alter table webhook_hour rename to webhook_hour_away`;
  await stats.flush();
  stats.add(entryOf(id, at(2)));
  await stats.flush();
  await sql`alter table webhook_hour_away rename to webhook_hour`;
  stats.add(entryOf(id, at(2)));
  await stats.flush();
  await stats.flush();
  assert.deepEqual(
    (await hoursOf([id])).map(({ attempts }) => attempts),
    [3],
  );
});

test('beyond its row limit it keeps counting the rows that it has, and accepts new ones after a flush', async () => {
  const [first, second] = [idOf(30_000), idOf(30_001)];
  const stats = statsWith(1);
  for (const id of [first, second, first]) stats.add(entryOf(id, at(3)));
  await stats.flush();
  stats.add(entryOf(second, at(3)));
  await stats.flush();
  assert.deepEqual(
    (await hoursOf([first, second])).map(({ attempts }) => attempts),
    [2, 1],
  );
});

test('an attempt without a history row is not counted: no attempt, or a retried internal fault', async () => {
  const id = idOf(40_000);
  const stats = statsWith();
  const entry = entryOf(id, at(4), { kind: 'internal', why: 'resolver', reply: null });
  stats.add({ ...entry, next: { dueAt: at(5) } });
  stats.add({ ...entry, attempt: null });
  stats.add(deadLetter(entry, entry.delivery, 'kills workers', at(4)));
  await stats.flush();
  assert.deepEqual(
    [...(await hoursOf([id]))],
    [{ key: `${id} 04:00 internal`, attempts: 1, durations: [1, ...emptyHistogram().slice(1)] }],
  );
});

test('an attempt that was not recorded because its shard was lost is left to the next owner', async () => {
  const id = idOf(45_000);
  const stats = statsWith();
  const runtime = { sql, clock: systemClock, log };
  const metrics = createEngineMetrics(new Registry()).attempts;
  const parts = {
    ownership: { workerId: 77, fenceOf: () => undefined, lastFenceOf: () => undefined, lost: () => {} },
    quarantine: { markers: new Map() },
    lanes: { isOrdered: () => false },
  };
  const { record } = createRecorder(runtime, parts, [metrics, stats]);
  const isWritten = await new Promise<boolean>((resolve) => record(entryOf(id, at(4)), resolve));
  await stats.flush();
  assert.deepEqual([isWritten, ...(await hoursOf([id]))], [false]);
});

test('histograms with fewer bounds are added to those with more', async () => {
  const id = idOf(50_000);
  const hour = { shard: SHARD, webhookId: id, hourMs: at(5).getTime(), outcome: 'delivered', attempts: 1 };
  for (const durations of [
    [1, 2],
    [1, 1, 1],
    [0, 1],
  ])
    await addHours(sql, [{ ...hour, durations }]);
  assert.deepEqual([...(await hoursOf([id]))], [{ key: `${id} 05:00 delivered`, attempts: 3, durations: [2, 4, 1] }]);
});

test('hours are deleted after their retention, in batches', async () => {
  const id = idOf(60_000);
  const stats = statsWith();
  for (let hour = 0; hour < 5; hour += 1) stats.add(entryOf(id, at(hour - 48)));
  await stats.flush();
  const purge = async () => await createDeliveryPurges({ sql, hoursKeptDays: 1 })[1]?.purge(2, at(-24 + 3));
  assert.deepEqual([await purge(), await purge(), await purge()], [2, 1, 0]);
  assert.equal((await hoursOf([id])).length, 2);
});

test('counts of a shard that has moved to another database are dropped, and those of others are written', async () => {
  const moved = 9_000 * 256 + 6;
  const stats = statsWith();
  await sql`delete from shard_lease where shard = 6`;
  const entry = entryOf(moved, at(5));
  stats.add({ ...entry, shard: 6 });
  stats.add(entryOf(idOf(9_000), at(5)));
  await stats.flush();
  await sql`insert into shard_lease (shard) values (6)`;
  assert.equal((await hoursOf([idOf(9_000)])).length, 1);
  assert.equal((await sql`select from webhook_hour where shard = 6`).length, 0);
});
