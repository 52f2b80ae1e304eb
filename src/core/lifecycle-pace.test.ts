import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { standingClock } from '../../test/setup/clock.ts';
import { Pace } from './lifecycle.ts';

const MINUTE_MS = 60_000;

test('a process is quiet a minute after its last work, and after the last word of another process', () => {
  const clock = standingClock();
  const pace = new Pace(clock);
  for (const note of [() => {}, () => void pace.work(), () => pace.othersWork()]) {
    note();
    clock.advance(MINUTE_MS - 1);
    assert.equal(pace.isQuiet, false);
    clock.advance(1);
    assert.equal(pace.isQuiet, true);
  }
});

test('work after a quiet time waits for the refreshes, and other work for nothing', async () => {
  const clock = standingClock();
  const pace = new Pace(clock);
  const done: string[] = [];
  pace.refreshBy(async () => {
    await new Promise(setImmediate);
    done.push('refreshed');
  });
  assert.equal(pace.work(), undefined);
  clock.advance(MINUTE_MS);
  await pace.work();
  assert.deepEqual(done, ['refreshed']);
  clock.advance(MINUTE_MS);
  pace.othersWork();
  await pace.work();
  assert.deepEqual(done, ['refreshed', 'refreshed']);
});

test('work after a quiet time does not wait longer than two seconds for a database', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const clock = standingClock();
  const pace = new Pace(clock);
  pace.refreshBy(() => new Promise(() => {}));
  clock.advance(MINUTE_MS);
  let isResolved = false;
  void pace.work()?.then(() => (isResolved = true));
  mock.timers.tick(1_999);
  await new Promise(setImmediate);
  assert.equal(isResolved, false);
  mock.timers.tick(1);
  await new Promise(setImmediate);
  assert.equal(isResolved, true);
});

test('a pause lasts an hour in a quiet time, and ends at its next interval after that', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const clock = standingClock();
  const pace = new Pace(clock);
  const stopping = new AbortController();
  let runs = 0;
  const repeating = pace.repeat(1_000, () => (runs += 1), stopping.signal);
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      clock.advance(1_000);
      mock.timers.tick(1_000);
      await new Promise(setImmediate);
    }
  };
  await pass(59);
  assert.equal(runs, 59);
  await pass(3_599);
  assert.equal(runs, 59);
  await pass(1);
  assert.equal(runs, 60);
  await pass(10);
  assert.equal(runs, 60);
  pace.othersWork();
  await pass(5);
  assert.equal(runs, 65);
  stopping.abort();
  await repeating;
});
