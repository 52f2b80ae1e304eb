/**
 * A back-up of several databases on two servers, with the pg_dump of this machine: the dumps are of the same moment, and restored into
 * as many databases they are an installation again.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { openPool, type Sql } from '#db/pool.ts';
import { listLeasedShards, readMap } from '#shards/map-sql.ts';
import { formatShards } from '#shards/map.ts';
import { idOf } from '#core/ids.ts';
import type { Manifest } from '../../src/cli/backup/backup-command.ts';
import { cleanups } from '../setup/cleanups.ts';
import { runProcess } from '../setup/command.ts';
import { startDebianServer, type DebianServer } from '../setup/debian-server.ts';
import { settingsOf } from '../setup/several-databases.ts';
import { until } from '../setup/until.ts';
import { urlOf } from '../setup/database.ts';

const ends = cleanups();
const servers = [await startDebianServer(ends), await startDebianServer(ends)] as const;
const folder = await mkdtemp(join(tmpdir(), 'halcyon-backup-'));
ends.after(() => rm(folder, { recursive: true }));
const secretKey = randomBytes(32);

async function create(server: DebianServer, database: string) {
  const admin = openPool(server.address, { connections: 1, applicationName: 'test' });
  await admin`create database ${admin(database)}`;
  await admin.end();
  const address = { ...server.address, database };
  const sql = openPool(address, { connections: 2, applicationName: 'test' });
  ends.after(() => sql.end({ timeout: 0 }));
  return { server, database, sql, url: urlOf(address) };
}

async function addStore(sql: Sql, id: number, shard: number): Promise<void> {
  await sql`
    insert into store (shard, id, name, domain, email, time_zone, date_created, date_modified)
    values (${shard}, ${id}, 'S', 's.example', 's@s.example', 'UTC', now(), now())`;
}

const storesOf = async (sql: Sql): Promise<number[]> =>
  (await sql<{ id: number }[]>`select id from store order by id`).map(({ id }) => id);

const home = await create(servers[0], 'home');
const b = await create(servers[1], 'b');
const c = await create(servers[1], 'c');
const settings = (one: Pick<typeof home, 'url'>, two: { url: string }, three: { url: string }) => ({
  ...settingsOf(one, { '0-99': one, '100-199': two, '200-255': three }, secretKey),
  PATH: process.env['PATH'] ?? '',
});
const env = settings(home, b, c);
assert.equal((await runProcess(['migrate'], env)).code, 0);
// Skips the seconds in which no store is made for another database.
await home.sql`update shard_map set date_created = '-infinity'`;
const [before, after] = [idOf(5, 120), idOf(6, 120)];

test('every database is dumped at the same moment, and can be restored into new databases', async () => {
  await addStore(home.sql, before, 120);
  await addStore(b.sql, before, 120);

  // The dump of the home database waits for this lock, while the snapshots of all databases exist.
  const lock = await home.sql.reserve();
  await lock`begin`;
  await lock`lock table audit in access exclusive mode`;
  const running = runProcess(['backup', '--to', join(folder, 'set'), '--json'], env);
  await until(
    () => home.sql<{ pid: number }[]>`select pid from pg_locks where not granted`,
    (waiting) => waiting.length > 0,
  );
  await addStore(b.sql, after, 120);
  await lock`rollback`;
  lock.release();
  const { code, out, err } = await running;
  assert.equal(code, 0, err);
  const report = JSON.parse(out) as { folder: string; manifest: string; kind: string; bytes: number };
  assert.deepEqual([report.folder, report.kind], [join(folder, 'set'), 'dumps']);

  const text = await readFile(report.manifest, 'utf8');
  assert.doesNotMatch(text, /postgres:\/\//);
  const manifest = JSON.parse(text) as Manifest;
  const map = await readMap(home.sql);
  assert.equal(manifest.map_version, map.version);
  assert.deepEqual(
    manifest.databases.map(({ id, name, identity, shards }) => ({ id, name, identity, shards })),
    map.databases.map(({ id, name, identity }) => ({
      id,
      name,
      identity,
      shards: ['0-99', '100-199', '200-255'][id] ?? '',
    })),
  );
  assert.equal((await stat(report.folder)).mode & 0o777, 0o700);
  for (const { file, bytes, sha256 } of manifest.databases) {
    const content = await readFile(join(report.folder, file));
    assert.equal(content.length, bytes);
    assert.equal(createHash('sha256').update(content).digest('hex'), sha256);
  }

  const restored = [await create(servers[1], 'home2'), await create(servers[0], 'b2'), await create(servers[0], 'c2')];
  const [home2, b2, c2] = restored;
  assert.ok(home2 && b2 && c2);
  for (const [index, { file }] of manifest.databases.entries()) {
    const into = restored[index];
    assert.ok(into);
    const args = ['--exit-on-error', '--no-owner', join(report.folder, file)];
    await promisify(execFile)(...into.server.client('pg_restore', into.database, args));
  }
  const migrated = await runProcess(['migrate'], settings(home2, b2, c2));
  assert.equal(migrated.code, 0, migrated.err);
  assert.deepEqual(await storesOf(home2.sql), [before]);
  assert.deepEqual(await storesOf(b2.sql), [before], 'the store that was added after the snapshots is in no dump');
  const leases = await Promise.all([home2, b2, c2].map(async ({ sql }) => formatShards(await listLeasedShards(sql))));
  assert.deepEqual(leases, ['0-99', '100-199', '200-255']);
  const names = (await readMap(home2.sql)).databases.slice(1).map(({ name }) => name);
  assert.deepEqual(
    names,
    [b2, c2].map(({ database, server }) => `${server.address.directory}:5432/${database}`),
    'the map has the addresses of the restored databases',
  );
});

test('nothing is written while shards move', async () => {
  await home.sql`insert into shard_move (shards, source, target) values ('{120}', 1, 2)`;
  const { code, err } = await runProcess(['backup', '--to', join(folder, 'moving')], env);
  await home.sql`delete from shard_move`;
  assert.match(err, /Shards are being moved: run this again when/);
  assert.equal(code, 1);
  assert.equal((await readdir(folder)).includes('moving'), false);
});

test('an existing folder is not changed, and while a shard is in no database nothing is written', async () => {
  await mkdir(join(folder, 'there'));
  const again = await runProcess(['backup', '--to', join(folder, 'there')], env);
  assert.match(again.err, /there already exists: choose another folder with --to/);
  assert.equal(again.code, 1);
  await c.sql`delete from shard_lease where shard = 210`;
  const { code, err } = await runProcess(['backup', '--to', join(folder, 'other')], env);
  assert.match(err, /\/c delivers the shards 200-209, 211-255, but owns 200-255: /);
  assert.equal(code, 1);
  assert.equal((await readdir(folder)).includes('other'), false);
  assert.deepEqual(await readdir(join(folder, 'there')), []);
});

test('a database that is down is named, with the exit code of one that does not answer', async () => {
  await servers[1].postmaster.stop();
  const { code, err } = await runProcess(['backup', '--to', join(folder, 'down')], env);
  assert.match(err, /:5432\/[bc]: PostgreSQL cannot be used/);
  assert.equal(code, 3, err);
  assert.equal((await readdir(folder)).includes('down'), false);
});
