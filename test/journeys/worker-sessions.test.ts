/** The sessions of a worker in pg_stat_activity. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCommand } from '../setup/command.ts';
import { databaseEnvOf, testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { until } from '../setup/until.ts';

test('the connections of a worker are named by the id in its leases', async () => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  const worker = startCommand(['deliver'], {
    ...databaseEnvOf(address),
    HALCYON_SECRET_KEY: '0'.repeat(64),
    LOG_LEVEL: 'error',
  });
  ends.after(async () => {
    worker.stop('SIGTERM');
    await worker.ended;
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
