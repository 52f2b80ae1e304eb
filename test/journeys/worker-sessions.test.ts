/** The sessions of a worker in pg_stat_activity. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { startCommand } from '../setup/command.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { until } from '../setup/until.ts';

test('the connections of a worker are named by the id in its leases', async () => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  assert.ok(address.kind === 'socket');
  const { directory, user, password, database } = address;
  const child = startCommand(['deliver'], {
    DATABASE_URL: `postgres:///${database}`,
    PGHOST: directory,
    PGUSER: user,
    PGPASSWORD: password,
    HALCYON_SECRET_KEY: '0'.repeat(64),
    LOG_LEVEL: 'error',
  });
  ends.after(async () => {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  });
  const [row] = await until(
    () => sql<{ owner: number }[]>`select distinct owner from shard_lease where owner is not null`,
    (rows) => rows.length === 1,
  );
  const sessions = await sql<{ name: string }[]>`
    select distinct application_name as name from pg_stat_activity
    where datname = current_database() and application_name like 'halcyon%'`;
  assert.deepEqual(
    sessions.map(({ name }) => name),
    [`halcyon ${row?.owner}`],
  );
});
