import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool } from '#db/pool.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startEngine } from '../setup/engine.ts';

test('operations that need a session use the direct connection', async () => {
  const ends = cleanups();
  const { sql, address } = await testDatabase(ends);
  const direct = openPool(address, { connections: 1, applicationName: 'test-direct' });
  ends.after(() => direct.end({ timeout: 0 }));
  const { startWorker } = await startEngine({ sql, direct, ends });
  await startWorker();
  const listening = await sql<{ name: string }[]>`
    select application_name as name from pg_stat_activity
    where datname = current_database() and query ilike 'listen%'`;
  assert.deepEqual(
    listening.map(({ name }) => name),
    ['test-direct'],
  );
});
