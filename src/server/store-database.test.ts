/** A database that does not respond refuses statements at once, and accepts them when it responds again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLog } from '#core/log.ts';
import { openPool } from '#db/pool.ts';
import { hadNoConnection, isUnavailable } from '#db/unavailable.ts';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { startProxy } from '../../test/setup/proxy.ts';
import { until } from '../../test/setup/until.ts';
import { DatabaseWatch } from './store-database.ts';

const ends = cleanups();
const { address } = await testDatabase(ends);
assert.ok(address.kind === 'socket');
const proxy = await startProxy(address, ends);
const open = () => {
  const pool = openPool({ kind: 'url', url: proxy.url }, { connections: 2, applicationName: 'test-watch' });
  ends.after(() => pool.end({ timeout: 0 }));
  return pool;
};
const [sql, direct] = [open(), open()];
const watch = new DatabaseWatch({ id: 1, sql, direct, log: createLog('silent') });
ends.after(() => watch.stop());
watch.start();

const ask = (): Promise<string> =>
  sql`select 1`.then(
    () => 'a response',
    (error: unknown) => {
      assert.ok(isUnavailable(error), String(error));
      // Only a suspended pool refuses with this code; a statement that waited until a time-out has another one.
      return String((error as { code?: unknown }).code);
    },
  );

test('statements for a database that does not respond are refused at once, those that wait as well', async () => {
  assert.equal(await ask(), 'a response');
  proxy.vanish();
  const sent = ask();
  const waiting = assert.rejects(async () => sql`select 1`, hadNoConnection);
  assert.equal(await ask(), 'CONNECTION_SUSPENDED');
  await waiting;
  assert.equal(await ask(), 'CONNECTION_SUSPENDED');
  proxy.cut();
  assert.notEqual(await sent, 'a response');
  await until(ask, (said) => said === 'a response');
});
