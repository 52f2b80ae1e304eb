import assert from 'node:assert/strict';
import { createServer, type AddressInfo } from 'node:net';
import { test } from 'node:test';
import { testDatabase } from '../../test/setup/database.ts';
import { DatabaseError, openPool } from './pool.ts';
import { isUnavailable } from './unavailable.ts';
import { checkServer, connectionsOfEach } from './usable.ts';

const { sql, address } = await testDatabase();
const [{ allowed } = assert.fail()] = await sql<{ allowed: number }[]>`
  select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`;
const sizes = { wanted: 10, others: 5 };

test('each process has the pool that is set if the server allows it', async () => {
  assert.equal(await connectionsOfEach(sql, 2, sizes), 10);
});

test('many processes together use at most three quarters of the connections', async () => {
  const processes = Math.floor(allowed / 15);
  const each = await connectionsOfEach(sql, processes, sizes);
  assert.ok(each >= 2 && each < 10);
  assert.ok(processes * (each + 5) <= 0.75 * allowed);
});

test('a server that does not allow the smallest pools is reported', async () => {
  await assert.rejects(connectionsOfEach(sql, allowed, sizes), /lower PROCESSES to \d+/);
});

test('checkServer is silent about a usable server and describes any other in one line', async () => {
  await checkServer(sql);
  const listener = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => listener.once('listening', resolve));
  const { port } = listener.address() as AddressInfo;
  await new Promise((resolve) => listener.close(resolve));
  const nowhere = openPool(
    { kind: 'url', url: `postgres://u:p@127.0.0.1:${port}/d` },
    { connections: 1, applicationName: 'test' },
  );
  await assert.rejects(checkServer(nowhere), (error) => {
    assert.ok(error instanceof DatabaseError);
    assert.match(error.message, /^.*ECONNREFUSED.*DATABASE_URL.*$/);
    assert.ok(isUnavailable(error.cause));
    return true;
  });
  await nowhere.end();
});

test('each connection error has its own remedy', async () => {
  assert.ok(address.kind === 'socket');
  for (const [wrong, remedy] of [
    [{ database: 'nowhere' }, /"nowhere".*createdb/],
    [{ user: 'nobody_known' }, /nobody_known.*pg_hba\.conf/],
    [{ directory: '/nowhere' }, /ENOENT.*\. Start the server/],
  ] as const) {
    const pool = openPool({ ...address, ...wrong }, { connections: 1, applicationName: 'test' });
    await assert.rejects(checkServer(pool), remedy);
    await pool.end();
  }
});
