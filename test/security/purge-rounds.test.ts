/** When retention runs, in which process, how it stops, and its metrics. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from '@prometheus-io/client';
import { openPool, type Sql } from '#db/pool.ts';
import type { Purge } from '#db/purges.ts';
import { systemClock } from '#core/clock.ts';
import { createLog } from '#core/log.ts';
import { startRetention } from '../../src/server/retention.ts';
import { testDatabase } from '../setup/database.ts';
import { freePort } from '../setup/free-port.ts';
import { until } from '../setup/until.ts';
import { startAuthorizationServer } from './oauth-server.ts';
import { IS_DIVIDED } from '../setup/suite-handle.ts';
import { NEVER_QUIET } from '../setup/clock.ts';

const { sql, address } = await testDatabase();
const BATCH = 3;
const HOUR_MS = 3_600_000;

/** A purge that deletes these many rows at one call after another, and then none. */
function scripted(name: string, rows: readonly number[] = []) {
  const limits: number[] = [];
  const purge: Purge['purge'] = async (limit) => rows[limits.push(limit) - 1] ?? 0;
  return { name, keptMs: 0, purge, limits };
}

function start(purges: readonly Purge[], options: { everyMs?: number; pauseMs?: number; on?: Sql } = {}) {
  const { everyMs = 1, pauseMs = 1, on = sql } = options;
  const registry = new Registry();
  const settings = { everyMs, batchRows: BATCH, pauseMs };
  const log = createLog('silent');
  const runtime = { direct: on, clock: systemClock, pace: NEVER_QUIET, log };
  const fixture = startRetention(runtime, settings, { registry, purges });
  return { stop: fixture.stop, metrics: () => registry.metrics() };
}

test('a purge continues until a batch is not full, then the next purge runs', async () => {
  const [many, few] = [scripted('many', [BATCH, BATCH, 1]), scripted('few', [1])];
  const fixture = start([many, few]);
  await until(fixture.metrics, (text) => /duration_seconds_count [1-9]/.test(text));
  await fixture.stop();
  const text = await fixture.metrics();
  assert.match(text, /halcyon_purged_rows_total\{what="many"\} 7\n/);
  assert.match(text, /halcyon_purged_rows_total\{what="few"\} 1\n/);
  assert.deepEqual(many.limits.slice(0, 3), [BATCH, BATCH, BATCH]);
});

test('a failing purge blocks neither the others nor its own next round', async () => {
  let failures = 0;
  const broken: Purge = {
    name: 'broken',
    keptMs: 0,
    purge: () => Promise.reject(new Error(`failure ${(failures += 1)}`)),
  };
  const sound = scripted('sound');
  const fixture = start([broken, sound]);
  await until(
    async () => Math.min(failures, sound.limits.length),
    (rounds) => rounds >= 2,
  );
  await fixture.stop();
});

test('of two processes one purges, and the other one takes over when it has stopped', async () => {
  const { promise: isReleased, resolve: release } = Promise.withResolvers<void>();
  let isBusy = false;
  const slow: Purge = { name: 'slow', keptMs: 0, purge: () => ((isBusy = true), isReleased.then(() => 0)) };
  const first = start([slow]);
  await until(
    async () => isBusy,
    (busy) => busy,
  );
  const waiting = scripted('waiting');
  let tries = 0;
  const onQuery = (statement: string) => void (tries += Number(statement.includes('pg_try_advisory_lock')));
  const pool = openPool(address, { connections: 2, applicationName: 'test-second', onQuery });
  const second = start([waiting], { on: pool });
  // When it tries again, the attempt before has ended.
  await until(
    async () => tries,
    (count) => count >= 2,
  );
  assert.deepEqual(waiting.limits, []);
  release();
  await first.stop();
  await until(
    async () => waiting.limits.length,
    (rounds) => rounds > 0,
  );
  await second.stop();
  await pool.end();
});

test('stop ends a pause and waits only for the batch in progress', { timeout: 10_000 }, async () => {
  const endless = scripted('endless', [BATCH, BATCH]);
  const fixture = start([endless], { pauseMs: HOUR_MS });
  await until(
    async () => endless.limits.length,
    (batches) => batches === 1,
  );
  await fixture.stop();
  assert.equal(endless.limits.length, 1);
  await start([], { everyMs: HOUR_MS }).stop();
});

test('/metrics has its own port, which serves nothing else', async () => {
  const port = await freePort();
  const server = await startAuthorizationServer({ METRICS_PORT: String(port) });
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  const text = await response.text();
  for (const what of ['authorization_codes', 'access_tokens', 'sessions', 'audit_entries'])
    assert.match(
      text,
      new RegExp(`halcyon_purged_rows_total\\{what="${what}"${IS_DIVIDED ? ',database="home"' : ''}\\} 0\\n`),
    );
  const labels = IS_DIVIDED ? '{database="home"}' : '';
  assert.ok(text.includes(`halcyon_housekeeping_duration_seconds_count${labels} 0\n`));
  for (const path of ['/', '/token', '/metrics/x'])
    assert.equal((await fetch(`http://127.0.0.1:${port}${path}`)).status, 404, path);
  assert.equal((await fetch(`http://127.0.0.1:${port}/metrics`, { method: 'POST' })).status, 404);
  assert.equal((await fetch(`${server.origin}/metrics`)).status, 404);
});
