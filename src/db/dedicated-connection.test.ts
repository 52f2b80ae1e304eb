import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { DedicatedConnection } from './dedicated-connection.ts';
import { openPool } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

const LIMIT_MS = 60_000;

async function open(limitMs: number) {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const proxy = await startProxy(address, ends);
  const beside = openPool({ kind: 'url', url: proxy.url }, { connections: 1, applicationName: 'test' });
  ends.after(() => beside.end({ timeout: 0 }));
  const connection = new DedicatedConnection(beside, limitMs);
  ends.after(() => connection.stop());
  return { sql, beside, proxy, connection };
}

const pidOf = (connection: DedicatedConnection) =>
  connection.query((on) => on<{ pid: number }[]>`select pg_backend_pid() as pid`);

test('a dedicated connection does not wait for a busy pool', async () => {
  const { beside, connection } = await open(5_000);
  const held = await beside.reserve();
  try {
    const [row] = await pidOf(connection);
    const [other] = await held<{ pid: number }[]>`select pg_backend_pid() as pid`;
    assert.notEqual(row?.pid, other?.pid);
  } finally {
    held.release();
  }
});

test('a silent connection is closed in time, and the next statement uses another one', async (t) => {
  const { sql, proxy, connection } = await open(LIMIT_MS);
  const [before] = await pidOf(connection);
  proxy.silence();
  // Only the limit of this statement: the driver needs real timers.
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let isClosed = false;
  const silent = assert.rejects(pidOf(connection), isUnavailable).then(() => (isClosed = true));
  t.mock.timers.tick(LIMIT_MS - 1);
  await sql`select 1`;
  // A close starts a timer of its own.
  t.mock.timers.tick(0);
  await sql`select 1`;
  assert.equal(isClosed, false);
  t.mock.timers.tick(1);
  t.mock.timers.reset();
  await silent;
  const [after] = await pidOf(connection);
  assert.notEqual(after?.pid, before?.pid);
});
