/** The findings of doctor before the first start: a new database, and faulty settings. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import type { Finding } from '../../src/cli/doctor/finding.ts';
import { runCommand, startCommand } from '../setup/command.ts';
import { databaseEnvOf, emptyDatabase, testDatabase } from '../setup/database.ts';
import { assertFinding } from '../setup/findings.ts';
import { freePort } from '../setup/free-port.ts';
import { until } from '../setup/until.ts';

test('doctor does not fail on a new database that was migrated and never served', async (t) => {
  const { address } = await emptyDatabase(t);
  const env = {
    ...databaseEnvOf(address),
    HALCYON_SECRET_KEY: randomBytes(32).toString('hex'),
    PORT: String(await freePort()),
  };
  const migrated = await runCommand(['migrate'], env);
  assert.equal(migrated.code, 0, migrated.err);
  const { out } = await runCommand(['doctor', '--json'], env);
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  assertFinding(findings, /^ok all \d+ are applied/);
  assertFinding(findings, /^ok none yet: the first start creates them/);
  // The server of the tests may lose everything, and this machine may have no name servers.
  const failed = findings.filter(({ state, check }) => state === 'fail' && check !== 'database' && check !== 'names');
  assert.deepEqual(failed, []);
});

test('serve names every invalid setting in one line, and every unknown name', async () => {
  const invalid = { LOG_LEVEL: 'loud', METRICS_PORT: 'x', DELIVERY_SLOTS: 'z' };
  const { code, err } = await runCommand(['serve'], { ...invalid, DATABASE_URI: 'y', HALCYON_FOO: '1' });
  assert.equal(code, 1);
  const lines = err.trim().split('\n');
  assert.equal(lines.length, 3, err);
  assert.match(err, /^halcyon: DATABASE_URI is no setting.*DATABASE_URL/m);
  assert.match(err, /^halcyon: HALCYON_FOO is no setting/m);
  const last = lines.at(-1) ?? '';
  for (const name of Object.keys(invalid)) assert.match(last, new RegExp(`${name} is "`));
});

test('an unknown name among the settings gets a warning, and does not stop the server from starting', async (t) => {
  const { address } = await testDatabase(t);
  const port = String(await freePort());
  const env = { ...databaseEnvOf(address), HALCYON_SECRET_KEY: randomBytes(32).toString('hex'), LOG_LEVEL: 'error' };
  const server = startCommand(['serve'], { ...env, PORT: port, HALCYON_FOO: '1' });
  const said = await until(
    async () => server.said(),
    (text) => text.includes('is ready.') || server.hasEnded(),
  );
  assert.match(said, /^halcyon: HALCYON_FOO is no setting/m);
  server.stop('SIGTERM');
  assert.equal((await server.ended).code, 0);
});
