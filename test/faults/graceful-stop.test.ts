/**
 * Workers are stopped while all of them send, one after the other, and others take their place: each ends after it
 * finished or handed back its deliveries, and none comes twice. Exit code 0 says that no part of the stop took more than
 * its share of the ten seconds: main.ts ends a process with 1 otherwise.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFleet, type Life } from '../setup/fleet/fleet.ts';
import { until } from '../setup/until.ts';

const WORKERS = 3;
const STOPS = 6;

/** Long, so that no worker takes over: on two cores a heartbeat may be a second late. */
const LEASE_MS = 6_000;

const fleet = await openFleet({ leaseMs: LEASE_MS });
const { ledger, sql } = fleet;
await fleet.startPublisher();
const workers: Life[] = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));
await fleet.startLoad();

test('a worker that is stopped finishes its attempts, hands back its shards and leaves no delivery to be sent twice', async (t) => {
  const tookMs: number[] = [];
  const inFlight: number[] = [];
  for (let stop = 0; stop < STOPS; stop += 1) {
    const leaving = workers.shift();
    assert.ok(leaving);
    const { life } = leaving;
    await until(
      async () => ledger.inFlight(life),
      (count) => count > 5,
    );
    inFlight.push(ledger.inFlight(life));
    const since = performance.now();
    assert.equal(await leaving.end('SIGTERM'), 0, leaving.said());
    tookMs.push(Math.round(performance.now() - since));
    const [left] = await sql<{ shards: number; workers: number }[]>`
      select (select count(*) from shard_lease where owner is not null and owner not in (select id from worker)) as shards,
        (select count(*) from worker) as workers`;
    assert.deepEqual(left, { shards: 0, workers: WORKERS - 1 });
    workers.push(await fleet.startWorker());
  }
  t.diagnostic(`in flight at the stop: ${inFlight.join(' ')}; ended after ${tookMs.join(' ')} ms`);
  await fleet.settle(t);
  assert.equal(ledger.duplicates().length, 0);
});
