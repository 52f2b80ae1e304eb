/** `halcyon deliver` as a process: its sessions in pg_stat_activity, and its output. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { listProcesses } from '#db/activity.ts';
import { openPool } from '#db/pool.ts';
import { VERSION } from '#server/version.ts';
import { printed, startProcess } from '../setup/command.ts';
import { testDatabase, urlOf } from '../setup/database.ts';
import { settingsOf } from '../setup/several-databases.ts';
import { until } from '../setup/until.ts';

const { sql, address } = await testDatabase();
const program = startProcess(['deliver'], { ...settingsOf({ url: urlOf(address) }), LOG_LEVEL: 'info' });
after(() => program.kill('SIGKILL'));
await printed(program, /(is delivering\.\n)/);

test('the connections of a worker are named by the id in its leases, the version and its role', async (t) => {
  const [row] = await until(
    () => sql<{ owner: number }[]>`select distinct owner from shard_lease where owner is not null`,
    (rows) => rows.length === 1,
  );
  const sessions = await sql<{ name: string }[]>`
    select distinct application_name as name from pg_stat_activity
    where datname = current_database() and application_name like 'halcyon%'`;
  assert.deepEqual(
    sessions.map(({ name }) => name),
    [`halcyon ${row?.owner} ${VERSION} deliver`],
  );
  const older = openPool(address, { connections: 1, applicationName: 'halcyon 7' });
  t.after(() => older.end());
  await older`select`;
  const processes = await listProcesses(sql);
  assert.deepEqual(
    processes.map(({ id, version, roles }) => ({ id, version, roles })),
    [
      { id: row?.owner, version: VERSION, roles: ['deliver'] },
      { id: 7, version: 'older', roles: ['deliver'] },
    ],
  );
});

test('the standard output of a process with a database of its own consists of log lines', async () => {
  program.kill('SIGTERM');
  const { code, out, err } = await program.ended;
  assert.equal(code, 0, err);
  const lines = out.trimEnd().split('\n');
  for (const line of lines) assert.match(line, /^\{"level":/);
  assert.ok(lines.some((line) => (JSON.parse(line) as { msg: string }).msg === 'stopping'));
});
