/**
 * The primary is killed under load and its synchronous standby promoted: what was acknowledged is there, leases and
 * fences among it, and workers and publishers go on with it by themselves.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endings } from '../setup/endings.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { openPair } from '../setup/fleet/standby.ts';
import { until } from '../setup/until.ts';

const WORKERS = 3;
const SOME = 500;

const ends = endings();
const server = await openPair(ends);
const fleet = await openFleet({ ends, server });
const { ledger, sql } = fleet;
await fleet.startPublisher();
const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));

test('a failover to a synchronous standby loses nothing that was accepted', async (t) => {
  await fleet.startLoad();
  await until(
    async () => ledger.delivered,
    (count) => count > SOME,
  );
  for (const { life } of workers) ledger.fault(life, 'primary killed');
  const accepted = fleet.load.accepted.size;
  await server.kill();
  await server.start();
  const more = ledger.delivered + SOME;
  await until(
    async () => ledger.delivered,
    (count) => count > more,
  );
  const [now] = await sql<{ data: string; timeline: number }[]>`
    select current_setting('data_directory') as data,
      ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int as timeline`;
  assert.match(now?.data ?? '', /halcyon-standby/);
  assert.equal(now?.timeline, 2, 'what is written is written after a promotion');
  t.diagnostic(`accepted ${accepted} before`);
  await fleet.settle(t);
  assert.ok(fleet.load.later + fleet.load.silent > 0, 'publishers met a database that was away');
  for (const worker of workers) assert.equal(await worker.end('SIGTERM'), 0, worker.said());
});
