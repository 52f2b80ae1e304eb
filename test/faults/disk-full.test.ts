/**
 * The disk of the tables is full for a while under load: publishers get a 503, workers keep outcomes that could not be
 * written, and all resume by themselves when there is free space.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { cleanups } from '../setup/cleanups.ts';
import { openFleet, type Fleet } from '../setup/fleet/fleet.ts';
import { openServer } from '../setup/fleet/server.ts';
import { moveToSmallDisk, type SmallDisk } from '../setup/fleet/small-disk.ts';
import { isRoot } from '../setup/embedded-process.ts';
import { until } from '../setup/until.ts';

const WORKERS = 3;
const DISK_MB = 256;
const SOME = 500;
/** Four connections repeat after 50 ms each: the fault lasts longer than a lease. */
const REFUSED = 150;

async function openFull(): Promise<{ fleet: Fleet; disk: SmallDisk }> {
  const ends = cleanups();
  let disk: SmallDisk | undefined;
  const server = await openServer(ends, {
    prepare: async (data) => {
      disk = await moveToSmallDisk(join(data, 'base'), DISK_MB, ends);
    },
  });
  assert.ok(disk);
  return { fleet: await openFleet({ ends, server }), disk };
}

test('a full disk loses no accepted event', { skip: !isRoot && 'only root mounts a disk' }, async (t) => {
  const { fleet, disk } = await openFull();
  const { ledger } = fleet;
  await fleet.startPublisher();
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()));
  await fleet.startLoad();
  const enough = ledger.delivered + SOME;
  await until(
    async () => ledger.delivered,
    (count) => count > enough,
  );
  const bytes = await disk.fill();
  await until(
    async () => fleet.load.later,
    (count) => count > REFUSED,
  );
  t.diagnostic(`${bytes} bytes were free; publishers were asked to come again ${fleet.load.later} times`);
  for (const { life } of workers) ledger.fault(life, 'disk full');
  await disk.free();
  const more = ledger.delivered + SOME;
  await until(
    async () => ledger.delivered,
    (count) => count > more,
  );
  await fleet.settle(t);
  for (const worker of workers) {
    assert.doesNotMatch(worker.said(), /delivery dead-lettered/);
    assert.equal(await worker.end('SIGTERM'), 0, worker.said());
  }
});
