import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import * as fc from 'fast-check';
import { Registry } from '@prometheus-io/client';
import { systemClock } from '#core/clock.ts';
import { createLog } from '#core/log.ts';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { DatabaseClock, readDatabaseTime } from './database-clock.ts';
import type { Sql } from './pool.ts';
import { NEVER_QUIET } from '../../test/setup/clock.ts';

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

const { sql } = await testDatabase(cleanups());

/** The clock of a machine, `wrongMs` ahead of the right one; its monotonic clock stands while it is suspended. */
function machine(wrongMs: number) {
  let suspendedMs = 0;
  return {
    now: () => new Date(Date.now() + wrongMs),
    monotonicMs: () => systemClock.monotonicMs() - suspendedMs,
    set: (ms: number) => void (wrongMs = ms),
    suspend: (ms: number) => void (suspendedMs += ms),
  };
}

async function follow(t: TestContext, local: ReturnType<typeof machine>, database: Sql = sql) {
  const said: string[] = [];
  const log = createLog('info', { write: (line: string) => void said.push(line) });
  const clock = await DatabaseClock.follow({ sql: database, local, pace: NEVER_QUIET, log });
  t.after(() => clock.stop());
  return { clock, said };
}

/** Asserts that the clock shows the time of the database, as exactly as a reading since `since` can know it: to its round trip. */
async function demandSame(clock: DatabaseClock, since: Date): Promise<void> {
  const shown = clock.now().getTime();
  const now = await readDatabaseTime(sql);
  // Times are whole milliseconds.
  const roundMs = now.getTime() - since.getTime() + 2;
  assert.ok(Math.abs(shown - now.getTime()) <= roundMs, `${shown - now.getTime()} of ${roundMs} ms`);
}

for (const days of [-800, -40, -1, 0, 1, 40, 800]) {
  test(`a machine whose clock is wrong by ${days} days has the time of the database`, async (t) => {
    const since = await readDatabaseTime(sql);
    const { clock, said } = await follow(t, machine(days * DAY_MS));
    await demandSame(clock, since);
    assert.deepEqual([clock.check(), said.length], days === 0 ? [undefined, 0] : ['clock', 1]);
  });
}

test('an error is logged and measured from a minute, and the process is unready from five', async (t) => {
  const local = machine(0);
  const { clock, said } = await follow(t, local);
  const registry = new Registry();
  clock.observe(registry);
  const stated: unknown[] = [];
  for (const minutes of [0.9, 1.1, 4.9, 5.1, -5.1, -4.9, -1.1, -0.9]) {
    local.set(minutes * MINUTE_MS);
    clock.now();
    await clock.settled();
    const seconds = (await registry.getSingleMetric('halcyon_clock_ahead_seconds')?.get())?.values[0]?.value ?? NaN;
    assert.ok(Math.abs(seconds - minutes * 60) < 1, `${seconds} s`);
    stated.push([minutes, clock.check(), said.length]);
  }
  assert.deepEqual(stated, [
    [0.9, undefined, 0],
    [1.1, undefined, 1],
    [4.9, undefined, 1],
    [5.1, 'clock', 1],
    [-5.1, 'clock', 1],
    [-4.9, undefined, 1],
    [-1.1, undefined, 1],
    [-0.9, undefined, 2],
  ]);
  assert.match(said[0] ?? '', /"aheadSeconds":66,.*synchronise both by NTP/);
});

test('whatever a machine does to its clocks, the time of the database is shown after one reading', async (t) => {
  const local = machine(0);
  const { clock } = await follow(t, local);
  // A clock that is set back by exactly as much as the machine slept is seen by the next reading only.
  const step = fc.record({
    wrongMs: fc.integer({ min: -800 * 1_440, max: 800 * 1_440 }).map((minutes) => minutes * MINUTE_MS),
    suspendedMs: fc.oneof(
      fc.constant(0),
      fc.nat({ max: 40 * 1_440 }).map((minutes) => (minutes + 0.5) * MINUTE_MS),
    ),
  });
  const walk = fc.asyncProperty(fc.array(step, { maxLength: 5 }), async (steps) => {
    for (const { wrongMs, suspendedMs } of steps) {
      local.set(wrongMs);
      local.suspend(suspendedMs);
      const since = await readDatabaseTime(sql);
      // The first look after a step asks the database.
      clock.now();
      await clock.settled();
      await demandSame(clock, since);
    }
  });
  await fc.assert(walk, { numRuns: 30 });
});

test('the time goes on while the database does not respond, which is asked once after a step', async (t) => {
  const { sql: other } = await testDatabase(cleanups());
  const since = await readDatabaseTime(sql);
  const local = machine(40 * DAY_MS);
  let asked = 0;
  const counted = new Proxy(other, {
    apply: (target, self, texts) => {
      asked += 1;
      return Reflect.apply(target, self, texts) as unknown;
    },
  });
  const { clock } = await follow(t, local, counted);
  await other.end();
  local.set(0);
  for (let look = 0; look < 5; look += 1) {
    clock.now();
    await clock.settled();
  }
  assert.equal(asked, 2);
  await demandSame(clock, since);
});
