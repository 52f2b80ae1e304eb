/** What is only shown leaves out databases that are down; everything else needs all of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool, type Queryable } from '#db/pool.ts';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { inAvailable, inEach } from './map.ts';

const ends = cleanups();
const { sql } = await testDatabase(ends);
const nowhere = { kind: 'socket', directory: '/nonexistent', user: 'a', password: '', database: 'a' } as const;
const down = openPool(nowhere, { connections: 1, applicationName: 'test-each' });
ends.after(() => down.end({ timeout: 0 }));
const each = () => [sql, down];
const read = (database: Queryable) => database<{ n: number }[]>`select 1 as n`;

test('a database that is down is left out of what is shown', async () => {
  assert.deepEqual(await inAvailable(each, read), [{ n: 1 }]);
});

test('a read that needs all databases rejects while one is down, and a fault of a statement is never left out', async () => {
  await assert.rejects(inEach(each, read), { code: 'ENOENT' });
  await assert.rejects(
    inAvailable(each, (database) => database`select wrong`),
    { code: '42703' },
  );
});
