/**
 * The embedded database after a restore and after an upgrade, as docs/operating.md describes them, until the first event that is
 * published on the new server arrives.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { promisify } from 'node:util';
import { findRunning } from '#db/embedded.ts';
import { openPool } from '#db/pool.ts';
import { runProcess } from '../setup/command.ts';
import { cleanups } from '../setup/cleanups.ts';
import { commitOfRelease, hasCommit, readReleases, REPLACED_AT, treeAt } from '../setup/fleet/older-tree.ts';
import { startProgram, type Program } from '../setup/fleet/program.ts';
import { isRoot } from '../setup/embedded-process.ts';
import { placeForFixture, startFixture, type Fixture, type FixturePlace } from '../setup/fixture.ts';
import { until } from '../setup/until.ts';

const ROOT = join(import.meta.dirname, '../..');

const ends = cleanups();
const manual = await readFile(join(ROOT, 'docs/operating.md'), 'utf8');
/** What the data of each version have to be migrated from: each release, and the commit whose migrations were replaced. */
const versions = [
  { version: 'the last version before v0.2.0', commit: (await hasCommit(REPLACED_AT)) ? REPLACED_AT : undefined },
  ...(await Promise.all(
    Object.keys(await readReleases()).map(async (version) => ({ version, commit: await commitOfRelease(version) })),
  )),
];

/** The commands of the manual that restore a copy into a new folder, without the one that starts the server there. */
function unpacking(): string {
  const [, section = ''] = /^## Back up and restore\n([^]*?)^## /m.exec(manual) ?? [];
  const [, block = ''] = /```sh\n([^`]*tar -xpf[^`]*)```/.exec(section) ?? [];
  const lines = block.trim().split('\n');
  assert.match(lines.pop() ?? '', /^HALCYON_DATA=restored npm start$/);
  return lines.join('\n');
}

async function serve({ env }: FixturePlace, root = ROOT): Promise<Program> {
  const program = await startProgram({ root, args: ['serve'], env, ready: 'is ready.' });
  ends.after(async () => void (await program.end('SIGKILL')));
  return program;
}

async function publish(t: TestContext, { env }: FixturePlace, id: number, args: string[] = []): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-published-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'events.jsonl');
  await writeFile(file, `${JSON.stringify({ event: 'transaction/created', resource: { id } })}\n`);
  const { code, err } = await runProcess(['publish', file, ...args], env);
  assert.equal(code, 0, err);
}

/** The demo's receiver, which the server runs, prints each delivery. */
async function arrives(program: Program): Promise<void> {
  await until(
    async () => program.said(),
    (said) => said.includes('← transaction/created'),
  );
  assert.match(program.said(), /← transaction\/created .* signature verified/);
}

async function stopped(t: TestContext): Promise<{ place: FixturePlace; fixture: Fixture }> {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const fixture = await startFixture(place);
  assert.equal(await fixture.end('SIGTERM'), 0);
  return { place, fixture };
}

/** A copy of a stopped database, restored as the manual says below a folder with this mode. */
async function restored(t: TestContext, mode: number): Promise<FixturePlace> {
  const { place } = await stopped(t);
  const folder = await mkdtemp(join(tmpdir(), 'halcyon-restored-'));
  await chmod(folder, mode);
  const copied = await runProcess(['backup', '--to', join(folder, 'halcyon.tar'), '--json'], place.env);
  assert.equal(copied.code, 0, copied.err);
  assert.equal((JSON.parse(copied.out) as { kind: string }).kind, 'copy');
  const commands = unpacking().replaceAll('.halcyon/', `${place.dataDir}/`);
  await promisify(execFile)('/bin/bash', ['-ec', commands], { cwd: folder });
  const dataDir = join(folder, 'restored');
  const other = await placeForFixture({ ...place.env, HALCYON_DATA: dataDir });
  t.after(async () => {
    await other.remove();
    const home = await realpath(join(dataDir, 'postgres')).catch(() => dataDir);
    await rm(home, { recursive: true, force: true });
    await rm(folder, { recursive: true, force: true });
  });
  return { ...other, dataDir };
}

test('a copy that is restored as the manual says starts, and its first event arrives', async (t) => {
  const place = await restored(t, 0o755);
  const server = await serve(place);
  await publish(t, place, 1_001);
  await arrives(server);
  assert.equal(await server.end('SIGTERM'), 0);
});

test(
  'a copy that root restores below a folder that only root may enter starts, each time, with its data',
  { skip: !isRoot && 'only root runs the database as another user' },
  async (t) => {
    const place = await restored(t, 0o700);
    for (const id of [1_001, 1_002]) {
      const server = await serve(place);
      await publish(t, place, id);
      await arrives(server);
      assert.equal(await server.end('SIGTERM'), 0);
    }
  },
);

test('without demo.json a database with users starts, and new credentials are created on demand', async (t) => {
  const { place, fixture } = await stopped(t);
  await rm(join(place.dataDir, 'demo.json'));
  const got: string[] = [];
  const receiver = createServer((request, response) => {
    // The demo's other webhook, whose endpoint fails, has pending deliveries.
    if (request.url === '/') got.push(String(request.headers['service-webhook-event']));
    request.resume().once('end', () => response.writeHead(204).end());
  }).listen(Number(new URL(fixture.demo.receiver.url).port), '127.0.0.1');
  await once(receiver, 'listening');
  t.after(() => receiver.closeAllConnections());
  t.after(() => receiver.close());
  const server = await serve(place);
  assert.match(server.said(), /demo\.json/);
  const made = await runProcess(['client', 'create', '--name', 'Platform', '--trusted', '--json'], place.env);
  assert.equal(made.code, 0, made.err);
  const file = join(place.dataDir, 'platform.json');
  await writeFile(file, made.out, { mode: 0o600 });
  await publish(t, place, 1_001, ['--store', String(fixture.demo.store_id), '--client-secret-file', file]);
  await until(
    async () => got.length,
    (count) => count > 0,
  );
  assert.deepEqual(got, ['transaction/created']);
  const password = await runProcess(['user', 'set-password', fixture.demo.user.email, '--json'], place.env);
  assert.equal(password.code, 0, password.err);
  assert.equal(await server.end('SIGTERM'), 0);
});

/** Tables whose rows a start does not change. */
const KEPT = [
  'users',
  'store',
  'membership',
  'client',
  'webhook',
  'resource',
  'event',
  'sealing_key',
  'database_identity',
];

type Row = Readonly<Record<string, unknown>>;

/** Returns the rows of each of these tables of a running server. */
async function rowsOf({ dataDir }: FixturePlace): Promise<ReadonlyMap<string, Row[]>> {
  const address = await findRunning(dataDir);
  assert.ok(address !== undefined);
  const sql = openPool(address, { connections: 1, applicationName: 'test' });
  const read = async (table: string): Promise<[string, Row[]]> => {
    const rows = await sql<{ row: Row }[]>`select to_jsonb(t) as row from ${sql(table)} t`;
    return [table, rows.map(({ row }) => row)];
  };
  const found = await Promise.all(KEPT.map(read));
  await sql.end();
  return new Map(found);
}

/** Writes these columns of the rows, in an order that further columns do not change. */
const textsOf = (rows: readonly Row[], columns: readonly string[]): string[] =>
  rows.map((row) => JSON.stringify(columns.map((column) => [column, row[column]]))).toSorted();

for (const { version, commit } of versions)
  test(
    `the data of ${version} start under this one with all their rows, and their first event arrives`,
    { skip: commit === undefined && 'its commit is not in this repository' },
    async (t) => {
      const root = await treeAt(commit ?? '', ends);
      const place = await placeForFixture();
      t.after(() => place.remove());
      const old = await serve(place, root);
      await publish(t, place, 1_000);
      await arrives(old);
      const before = await rowsOf(place);
      assert.equal(await old.end('SIGTERM'), 0);
      const migrated = await runProcess(['migrate', '--json'], place.env);
      assert.equal(migrated.code, 0, migrated.err);
      const { applied } = JSON.parse(migrated.out) as { applied: string[] };
      const counts = [...before].map(([table, rows]) => `${rows.length} ${table}`);
      t.diagnostic(`${counts.join(', ')}; applied ${applied.join(', ') || 'nothing'}`);
      const server = await serve(place);
      const after = await rowsOf(place);
      for (const [table, rows] of before) {
        // Migrations add columns.
        const columns = Object.keys(rows[0] ?? {});
        assert.deepEqual(textsOf(after.get(table) ?? [], columns), textsOf(rows, columns), table);
      }
      await publish(t, place, 1_001);
      await arrives(server);
      assert.equal(await server.end('SIGTERM'), 0);
    },
  );
