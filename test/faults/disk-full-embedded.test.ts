/** An embedded database whose disk is full, and one that refuses sessions, as an operator sees them. */
import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Finding } from '../../src/cli/doctor/check.ts';
import { runProcess } from '../setup/command.ts';
import { cleanups } from '../setup/cleanups.ts';
import { scrape } from '../setup/exposition.ts';
import { freePort } from '../setup/free-port.ts';
import { isRoot, postmasterOf } from '../setup/embedded-process.ts';
import { moveToSmallDisk } from '../setup/fleet/small-disk.ts';
import { placeForFixture, startFixture, type Fixture, type FixturePlace } from '../setup/fixture.ts';
import { until } from '../setup/until.ts';

const DISK_MB = 128;
const WHOLE_DISK_MB = 256;
const PAGE_BYTES = 4_096;
/** Rejected requests in sequence: without a limit each has lines in the log. */
const REFUSED = 100;
const BODY = 'x'.repeat(100_000);

const ends = cleanups();

async function prepare(): Promise<FixturePlace> {
  const place = await placeForFixture({ METRICS_PORT: String(await freePort()), LOG_LEVEL: 'info' });
  ends.after(() => place.remove());
  return place;
}

async function doctor(place: FixturePlace): Promise<{ code: number | null; disk: Finding | undefined }> {
  const { code, out } = await runProcess(['doctor', '--json'], place.env);
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  return { code, disk: findings.find(({ check }) => check === 'disk') };
}

async function publisher({ demo }: Fixture): Promise<(id: number) => Promise<{ status: number; text: string }>> {
  const form = { grant_type: 'client_credentials', scope: 'platform', ...demo.platform };
  const answer = await fetch(`${demo.auth_url}/token`, { method: 'POST', body: new URLSearchParams(form) });
  const { access_token: token } = (await answer.json()) as { access_token: string };
  const headers = {
    'SERVICE-API-VERSION': '1',
    Authorization: `Bearer ${token}`,
    'Content-Type': 'application/json',
  };
  return async (id) => {
    const body = JSON.stringify({ event: 'transaction/created', resource: { id, note: `${id}${BODY}` } });
    const address = `${demo.base_url}/stores/${demo.store_id}/events`;
    const response = await fetch(address, { method: 'POST', headers, body });
    return { status: response.status, text: await response.text() };
  };
}

const skip = isRoot ? false : 'only root mounts a disk';

test(
  'a full disk is reported to clients, health, metrics, log and doctor, and no longer once it has free space',
  { skip },
  async () => {
    const place = await prepare();
    await (await startFixture(place)).end('SIGTERM');
    const disk = await moveToSmallDisk(join(place.dataDir, 'postgres/data/base'), DISK_MB, ends);
    const fixture = await startFixture(place);
    ends.after(async () => void (await fixture.end('SIGKILL')));
    const [{ base_url: at }, metrics] = [fixture.demo, `http://127.0.0.1:${place.env['METRICS_PORT']}`];
    const publish = await publisher(fixture);
    const ready = async (): Promise<string> => (await fetch(`${at}/health/ready`)).text();
    assert.equal((await publish(1)).status, 201);
    assert.equal((await scrape(metrics)).value('halcyon_database_disk_full_total'), 0);

    await disk.fill();
    let id = 2;
    const refused = await until(
      () => publish((id += 1)),
      ({ status }) => status !== 201,
    );
    assert.equal(refused.status, 503);
    assert.match(refused.text, /53100/);
    await until(ready, (text) => text === '{"status":"unready","missing":["disk"]}');
    for (let count = 1; count < REFUSED; count += 1) assert.equal((await publish((id += 1))).status, 503);
    const seen = await scrape(metrics);
    assert.ok((seen.value('halcyon_database_disk_full_total') ?? 0) > 0);
    assert.ok((seen.value('halcyon_disk_free_bytes') ?? Infinity) < 1_000_000);
    const running = await doctor(place);
    assert.deepEqual([running.code, running.disk?.state], [1, 'fail'], running.disk?.message ?? '');

    await disk.free();
    await until(ready, (text) => text === '{"status":"ready"}');
    assert.equal((await publish((id += 1))).status, 201);
    await disk.fill();
    assert.equal(await fixture.end('SIGTERM'), 0);
    const lines = fixture.output().split('\n');
    const minutes = 1 + Math.ceil(process.uptime() / 60);
    const about = lines.filter((line) => /53100|No space left/.test(line));
    assert.ok(about.length > 0 && about.length <= minutes, `${about.length} lines:\n${about.slice(0, 3).join('\n')}`);
    const stopped = await doctor(place);
    assert.deepEqual([stopped.code, stopped.disk?.state], [1, 'fail'], stopped.disk?.message ?? '');
    await disk.free();
  },
);

test(
  "a start on a full disk shows PostgreSQL's own reason, also where its log has no space for it",
  { skip },
  async () => {
    const place = await prepare();
    await (await startFixture(place)).end('SIGTERM');
    const home = join(place.dataDir, 'postgres');
    const disk = await moveToSmallDisk(home, WHOLE_DISK_MB, ends);
    const log = join(home, 'server.log');
    for (const isPadded of [false, true]) {
      const { size } = await stat(log);
      if (isPadded) await appendFile(log, ' '.repeat(PAGE_BYTES - (size % PAGE_BYTES)));
      await disk.fill();
      const { code, err } = await runProcess(['serve'], place.env);
      assert.equal(code, 1, err);
      assert.match(err, /FATAL: .*No space left on device.*; the disk is full: free space, then run this again/);
      await disk.free();
    }
  },
);

test('a server that refuses sessions is running: backup does not copy its folder', async () => {
  const place = await prepare();
  const fixture = await startFixture(place);
  ends.after(async () => void (await fixture.end('SIGTERM')));
  // A smart shutdown: open sessions continue, and new ones are refused.
  process.kill(await postmasterOf(place.dataDir), 'SIGTERM');
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-backup-'));
  ends.after(() => rm(folder, { recursive: true }));
  const { code, err } = await runProcess(['backup', '--to', join(folder, 'halcyon.tar')], place.env);
  assert.equal(code, 1, err);
  assert.match(err, /process \d+/);
  assert.deepEqual(await readdir(folder), []);
});
