/**
 * Clocks step by five minutes, forward and back, under load: that of PostgreSQL, then that of one worker. Leases depend
 * on monotonic clocks only, so no worker is considered crashed, and all accepted events arrive.
 */
import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { findPackage, usableBinaries } from '#db/data-folder.ts';
import { auditCounts } from '../setup/fleet/audit.ts';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet } from '../setup/fleet/fleet.ts';
import { openServer } from '../setup/fleet/server.ts';
import { isRoot, UNPRIVILEGED } from '../setup/embedded-process.ts';
import { until } from '../setup/until.ts';

const LIBRARY = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1';
/** Seconds from the true clock. The last step stays: deliveries that it postponed arrive on time. */
const STEPS = ['-300', '+0', '+300'];
const SOME = 200;
/** Long, so that a worker that waits for a core is not considered crashed. */
const LEASE_MS = 6_000;

/** A separate clock for a process: `turn` sets its offset from the true one. */
async function clockIn(folder: string, name: string) {
  const file = join(folder, name);
  const turn = (step: string) => writeFile(file, `${step}s\n`);
  await turn('+0');
  const env = {
    LD_PRELOAD: LIBRARY,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  };
  return { turn, env };
}

const ends = cleanups();
const folder = await mkdtemp(join(tmpdir(), 'halcyon-clocks-'));
ends.after(() => rm(folder, { recursive: true, force: true }));
await chmod(folder, 0o755);
const ofServer = await clockIn(folder, 'server');
const ofWorker = await clockIn(folder, 'worker');
const cache = isRoot ? '/var/cache/halcyon' : folder;
const found = await usableBinaries(await findPackage(), { account: isRoot ? UNPRIVILEGED : undefined, cache });
await mkdir(join(folder, 'bin'));
const exports = Object.entries(ofServer.env).map(([name, value]) => `export ${name}=${value}`);
const program = ['#!/bin/sh', ...exports, `exec ${join(found, 'bin/postgres')} "$@"`].join('\n');
await writeFile(join(folder, 'bin/postgres'), program, { mode: 0o755 });
const server = await openServer(ends, { binaries: folder });
const fleet = await openFleet({ ends, server, leaseMs: LEASE_MS, isClockTrue: false });
const { ledger, sql } = fleet;
await fleet.startPublisher();
await Promise.all([fleet.startWorker(), fleet.startWorker()]);
const turned = await fleet.startWorker({ env: ofWorker.env });

async function goesOn(): Promise<void> {
  const enough = ledger.delivered + SOME;
  await until(
    async () => ledger.delivered,
    (count) => count > enough,
  );
}

test('clock steps of five minutes lose no event, and no worker is considered crashed', async (t) => {
  await until(
    () => sql<{ n: number }[]>`select count(distinct owner) as n from shard_lease where owner is not null`,
    ([row]) => row?.n === 3,
  );
  await fleet.startLoad();
  await goesOn();
  const before = await auditCounts(sql);
  for (const step of STEPS) {
    await ofServer.turn(step);
    const [asked] = await sql<{ offset: number }[]>`
      select round(extract(epoch from clock_timestamp()) - ${Date.now() / 1_000}::float8)::int as offset`;
    assert.ok(Math.abs((asked?.offset ?? 0) - Number(step)) <= 2, 'the clock of the server was changed');
    await goesOn();
  }
  await ofServer.turn('+0');
  for (const step of STEPS) {
    await ofWorker.turn(step);
    const sent = ledger.sentBy(turned.life).length;
    await goesOn();
    await until(
      async () => ledger.sentBy(turned.life).length,
      (count) => count > sent,
    );
  }
  const after = await auditCounts(sql);
  await fleet.settle(t);
  assert.equal(after.takeOvers - before.takeOvers, 0);
});
