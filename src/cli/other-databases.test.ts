import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { warnIfLate } from './other-databases.ts';

test('a database that has not responded for two seconds is named once, a quicker one never', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const said: string[] = [];
  const log = createLog('warn', { write: (line) => void said.push(line) });
  const { promise, resolve } = Promise.withResolvers<string>();
  const waiting = warnIfLate(log, 'db.example.com:5432/halcyon', promise);
  t.mock.timers.tick(1_999);
  assert.deepEqual(said, []);
  t.mock.timers.tick(10_000);
  assert.equal(said.length, 1);
  assert.match(said[0] ?? '', /db\.example\.com:5432\/halcyon/);
  resolve('done');
  assert.equal(await waiting, 'done');
  await warnIfLate(log, 'quick', Promise.resolve());
  t.mock.timers.tick(10_000);
  assert.equal(said.length, 1);
});
