/** The map of shards: its databases, and who is notified of its changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openPool, type Queryable, listen, transaction } from '#db/pool.ts';
import { Pace } from '#core/lifecycle.ts';
import { cleanups } from '../../test/setup/cleanups.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { inAvailable, inEach, HOME } from './map.ts';
import { standingClock } from '../../test/setup/clock.ts';
import { until } from '../../test/setup/until.ts';
import { assignShards } from './map-sql.ts';

const ends = cleanups();
const { sql } = await testDatabase(ends);
const nowhere = { kind: 'socket', directory: '/nonexistent', user: 'a', password: '', database: 'a' } as const;
const down = openPool(nowhere, { connections: 1, applicationName: 'test-each' });
ends.after(() => down.end({ timeout: 0 }));
const each = () => [sql, down];
const read = (database: Queryable) => database<{ n: number }[]>`select 1 as n`;

// Operations in each database

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

// Notifications

test('a change of the map ends the quiet time of all processes', async (t) => {
  const clock = standingClock();
  const pace = new Pace(clock);
  const { stop } = await listen(sql, {}, { onMissed: () => assert.fail('missed'), silenceMs: 60_000, pace });
  t.after(stop);
  clock.advance(60_000);
  assert.equal(pace.isQuiet, true);
  await transaction(sql, (tx) => assignShards(tx, [], HOME));
  await until(
    async () => pace.isQuiet,
    (isQuiet) => !isQuiet,
  );
});
