/**
 * The primary is killed under load and its synchronous standby promoted: acknowledged data is there, leases and
 * fencing tokens included, and workers and publishers continue by themselves.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { openPair } from '../setup/fleet/standby.ts';
import { until } from '../setup/until.ts';

const WORKERS = 3;
const SOME = 500;

const ends = cleanups();
const server = await openPair(ends);
const fleet = await openFleet({ ends, server });
const { ledger, sql } = fleet;
await fleet.startPublisher();
const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));

test('a failover to a synchronous standby loses no accepted event', async (t) => {
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
  assert.equal(now?.timeline, 2, 'later writes come after a promotion');
  t.diagnostic(`accepted ${accepted} before`);
  await fleet.settle(t);
  assert.ok(fleet.load.later + fleet.load.silent > 0, 'publishers had requests without an answer');
  for (const worker of workers) assert.equal(await worker.end('SIGTERM'), 0, worker.said());
});
