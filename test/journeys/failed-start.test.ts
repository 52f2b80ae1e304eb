/** A process whose server cannot start stops the parts that run already: delivery, retention, the port of the metrics. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { systemClock } from '#core/clock.ts';
import { createLog } from '#core/log.ts';
import { readConfig } from '../../src/config/config.ts';
import { startApp } from '../../src/server/app.ts';
import { activeResources, leftBehind } from '../runner/leaks.ts';
import { testDatabase } from '../setup/database.ts';
import { cleanups } from '../setup/cleanups.ts';
import { freePort } from '../setup/free-port.ts';
import { openPools } from '../setup/store-pools.ts';
import { LOW_COST } from '../setup/passwords.ts';
import { NEVER_QUIET } from '../setup/clock.ts';

test('a server whose port is taken leaves nothing running', async () => {
  const ends = cleanups();
  const { sql } = await testDatabase(ends);
  const [port, metricsPort] = [await freePort(), await freePort()];
  const other = createServer().listen(port, '127.0.0.1');
  await once(other, 'listening');
  ends.after(async () => void other.close());
  const config = readConfig({ PORT: String(port), METRICS_PORT: String(metricsPort) }, process.cwd());
  const before = activeResources();
  const start = startApp({
    config,
    sql,
    direct: sql,
    secretKeys: [randomBytes(32)],
    clock: systemClock,
    pace: NEVER_QUIET,
    openPools,
    random: () => 0.5,
    passwordCost: LOW_COST,
    log: createLog('silent'),
    roles: ['serve', 'deliver'],
  });
  await assert.rejects(start, { code: 'EADDRINUSE' });
  await sql.end();
  assert.deepEqual(await leftBehind(before, 2_000), []);
  await assert.rejects(fetch(`http://127.0.0.1:${metricsPort}/health/live`));
});
