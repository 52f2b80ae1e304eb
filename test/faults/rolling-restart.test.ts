/**
 * From the last release to this version under load: new processes start one by one, the first migrates, and the old ones are stopped
 * one by one. No event is missing, and no request fails.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MIGRATIONS, migrationsIn } from '#db/migrate.ts';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet, type Life } from '../setup/fleet/fleet.ts';
import { commitOfRelease, readReleases, treeAt } from '../setup/fleet/older-tree.ts';
import { openServer } from '../setup/fleet/server.ts';
import type { Program } from '../setup/fleet/program.ts';
import { until } from '../setup/until.ts';

const WORKERS = 3;
const PUBLISHERS = 2;
/** Long, so that no worker takes over: on two cores a heartbeat may be a second late. */
const LEASE_MS = 6_000;

const ends = cleanups();
const release = Object.keys(await readReleases()).at(-1) ?? '';
const commit = await commitOfRelease(release);
const skip = commit === undefined && `the commit that lists ${release} as released is not in this repository`;

test('a fleet is upgraded under load, process by process', { skip }, async (t) => {
  const root = await treeAt(commit ?? '', ends);
  const server = await openServer(ends);
  const fleet = await openFleet({ ends, server, root, leaseMs: LEASE_MS });
  const { ledger, sql } = fleet;
  const oldPublishers = await Promise.all(Array.from({ length: PUBLISHERS }, () => fleet.startPublisher({ root })));
  const oldWorkers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker({ root })));
  await fleet.startLoad();

  const isSending = ({ life }: Life) =>
    until(
      async () => ledger.inFlight(life),
      (count) => count > 0,
    );
  const tookMs: number[] = [];
  const end = async (program: Program): Promise<void> => {
    const since = performance.now();
    assert.equal(await program.end('SIGTERM'), 0, program.said());
    tookMs.push(Math.round(performance.now() - since));
  };
  await Promise.all(oldWorkers.map(isSending));
  const newest = () => sql<{ name: string }[]>`select max(name) as name from schema_migration`;
  const [was] = await newest();
  // Both versions send beside each other, over the new schema, until the last old one has stopped.
  for (const old of oldWorkers) {
    await isSending(await fleet.startWorker());
    await isSending(old);
    await end(old);
  }
  for (const old of oldPublishers) {
    await fleet.startPublisher();
    await end(old);
  }
  const [is] = await newest();
  t.diagnostic(
    `from ${release} (${commit}, ${was?.name}) to ${is?.name}; each old process ended after ${tookMs.join(' ')} ms`,
  );
  await fleet.settle(t);
  assert.equal(is?.name, (await migrationsIn(MIGRATIONS)).at(-1)?.name);
  assert.equal(ledger.duplicates().length, 0);
});
