/**
 * Connections to PostgreSQL break at random moments under load: reset, ended by the server, or reset after the request
 * has arrived and before its answer, COMMIT included. The process then does not know the outcome and must find it out.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { openServer } from '../setup/fleet/server.ts';
import { startProxy } from '../setup/proxy.ts';
import { until } from '../setup/until.ts';
import { SEED } from '../setup/seed.ts';

const WORKERS = 3;
const CUTS = 16;
const UNANSWERED_MS = 40;
/** Events are derived in the same transaction, so that each array ends in a COMMIT. */
const SUBSCRIPTION = { event: 'subscription/created', resource: { id: 1 } };
/** The seed differs in each run; set the printed one here to repeat a run. */

const ends = cleanups();
const server = await openServer(ends);
const proxy = await startProxy(server.address, ends);
const fleet = await openFleet({ ends, server, databaseEnv: { DATABASE_URL: proxy.url } });
const { ledger, sql } = fleet;
await fleet.startPublisher();
const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));

let unknownCommits = 0;
/** In turns. */
const WAYS: readonly (() => Promise<void>)[] = [
  async () => void proxy.cut(),
  async () => void (unknownCommits += await proxy.cutUnanswered(UNANSWERED_MS)),
  async () => {
    await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and application_name like 'halcyon%'`;
  },
];
const noteFaults = () => workers.forEach(({ life }) => ledger.fault(life, 'cut'));

test('connections that are cut at random, also in the middle of a COMMIT, lose no event', async (t) => {
  await fleet.startLoad([SUBSCRIPTION]);
  const moments = fc.sample(fc.noBias(fc.nat(150)), { numRuns: CUTS, seed: SEED });
  for (const [index, some] of moments.entries()) {
    const enough = ledger.arrivals.length + some;
    await until(
      async () => ledger.arrivals.length,
      (count) => count > enough,
    );
    noteFaults();
    await WAYS[index % WAYS.length]?.();
    // A slow statement delays the requests sent meanwhile too.
    noteFaults();
  }
  t.diagnostic(`publishers repeated ${fleet.load.later} requests; ${unknownCommits} COMMITs had no answer`);
  await fleet.settle(t);
  assert.ok(fleet.load.later > 0, 'publishers were cut off');
  assert.ok(unknownCommits > 0, 'the answer of a COMMIT was lost');
  for (const worker of workers) assert.equal(await worker.end('SIGTERM'), 0, worker.said());
});
