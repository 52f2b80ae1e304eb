import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { Lifeline } from './lifeline.ts';
import { openPool } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

async function open(limitMs: number) {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const beside = openPool({ kind: 'url', url: proxy.url }, { connections: 1, applicationName: 'test' });
  ends.after(() => beside.end({ timeout: 0 }));
  const line = new Lifeline(beside, limitMs);
  ends.after(() => line.stop());
  return { sql, beside, proxy, line };
}

const pidOf = (line: Lifeline) => line.ask((on) => on<{ pid: number }[]>`select pg_backend_pid() as pid`);

test('a dedicated connection does not wait for a busy pool', async () => {
  const { beside, line } = await open(5_000);
  const held = await beside.reserve();
  try {
    const [row] = await pidOf(line);
    const [other] = await held<{ pid: number }[]>`select pg_backend_pid() as pid`;
    assert.notEqual(row?.pid, other?.pid);
  } finally {
    held.release();
  }
});

test('a silent connection is closed in time, and the next statement uses another one', async () => {
  const { proxy, line } = await open(300);
  const [before] = await pidOf(line);
  proxy.silence();
  const since = performance.now();
  await assert.rejects(pidOf(line), isUnavailable);
  assert.ok(performance.now() - since >= 299);
  const [after] = await pidOf(line);
  assert.notEqual(after?.pid, before?.pid);
});
