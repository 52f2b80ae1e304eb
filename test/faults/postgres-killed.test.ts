/**
 * PostgreSQL is restarted, crashes and is killed with all its processes, again and again under load: the workers resume by
 * themselves each time, and accepted events arrive.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openFleet } from '../setup/fleet/fleet.ts';
import { until } from '../setup/until.ts';

const ENDS = ['fast', 'kill', 'immediate', 'kill', 'fast', 'kill'] as const;
const WORKERS = 3;
/** Deliveries between two ends. */
const SOME = 300;

const fleet = await openFleet();
const { ledger, server } = fleet;
await fleet.startPublisher();
const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));

test('workers resume when PostgreSQL is back, however it ended', async (t) => {
  await fleet.startLoad();
  const inFlight: number[] = [];
  for (const how of ENDS) {
    const enough = ledger.delivered + SOME;
    await until(
      async () => ledger.delivered,
      (count) => count > enough,
    );
    inFlight.push(workers.reduce((sum, { life }) => sum + ledger.inFlight(life), 0));
    for (const { life } of workers) ledger.fault(life, how);
    if (how === 'kill') await server.kill();
    else await server.stop(how);
    await server.start();
  }
  t.diagnostic(`in flight at each end: ${inFlight.join(' ')}`);
  await fleet.settle(t);
  assert.ok(
    inFlight.some((count) => count > 0),
    'deliveries were in flight at an end',
  );
  assert.ok(fleet.load.later + fleet.load.silent > 0, 'publishers had requests without an answer');
  for (const worker of workers) assert.equal(await worker.end('SIGTERM'), 0, worker.said());
});
