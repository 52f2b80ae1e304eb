import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Pace } from '#core/lifecycle.ts';
import { listen, transaction } from '#db/pool.ts';
import { standingClock } from '../../test/setup/clock.ts';
import { testDatabase } from '../../test/setup/database.ts';
import { until } from '../../test/setup/until.ts';
import { assignShards } from './map-sql.ts';
import { HOME } from './map.ts';

test('a change of the map ends the quiet time of all processes', async (t) => {
  const { sql } = await testDatabase(t);
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
