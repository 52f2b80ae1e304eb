import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testDatabase } from '../../test/setup/database.ts';
import { connectionsOfEach } from './connection-limit.ts';

const { sql } = await testDatabase();
const [row] = await sql<{ allowed: number }[]>`
  select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`;
const allowed = row?.allowed ?? 0;
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
