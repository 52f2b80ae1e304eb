/**
 * The embedded PostgreSQL after an unexpected end: of its Halcyon, of itself, or of a start.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DatabaseAddress } from '#db/pool.ts';
import {
  ask,
  ended,
  hold,
  isAlive,
  isRoot,
  UNPRIVILEGED,
  postmasterOf,
  temporaryFolder,
} from '../setup/embedded-process.ts';
import { until } from '../setup/until.ts';

const isLinux = process.platform === 'linux';

async function watchdogsOf(postmaster: number): Promise<number[]> {
  const wanted = `halcyon-watchdog\0${postmaster}\0`;
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')));
  return pids.filter((_, i) => commands[i]?.endsWith(wanted)).map(Number);
}

test('kill -9 of Halcyon shuts PostgreSQL down, and the next start has the data', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = hold(t, dataDir);
  const { address } = await first.next();
  await ask(address, 'create table kept as select 7 as n');
  const postmaster = await postmasterOf(dataDir);
  await first.kill();
  await ended(postmaster);
  assert.match(await readFile(join(dataDir, 'postgres/server.log'), 'utf8'), /database system is shut down/);

  const second = hold(t, dataDir);
  assert.deepEqual(await ask((await second.next()).address, 'select n from kept'), [{ n: 7 }]);
});

test('a clean stop ends PostgreSQL and its watchdog', { skip: !isLinux }, async (t) => {
  const dataDir = await temporaryFolder(t);
  const holder = hold(t, dataDir);
  assert.ok((await holder.next()).address);
  const postmaster = await postmasterOf(dataDir);
  const [watchdog = 0, ...others] = await watchdogsOf(postmaster);
  assert.ok(isAlive(watchdog));
  assert.deepEqual(others, []);
  await holder.release();
  assert.equal(isAlive(postmaster), false);
  await ended(watchdog);
  assert.deepEqual(await holder.next(), { exited: 'PostgreSQL ended with code 0' });
});

test('an orphan, whose watchdog was killed as well, is stopped by the next start', { skip: !isLinux }, async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = hold(t, dataDir);
  assert.ok((await first.next()).address);
  const orphan = await postmasterOf(dataDir);
  for (const watchdog of await watchdogsOf(orphan)) process.kill(watchdog, 'SIGKILL');
  await first.kill();
  assert.ok(isAlive(orphan));

  const second = hold(t, dataDir);
  assert.deepEqual(await ask((await second.next()).address, 'select 1 as n'), [{ n: 1 }]);
  await ended(orphan);
});

test('a second Halcyon on the folder gets an error, and the first continues', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = hold(t, dataDir);
  const { address } = await first.next();
  const second = hold(t, dataDir);
  assert.deepEqual(await second.next(), {
    error: `DatabaseError: Another Halcyon is running on ${dataDir}: stop it first, or set HALCYON_DATA to another folder`,
  });
  assert.deepEqual(await ask(address, 'select 1 as n'), [{ n: 1 }]);
});

test('two concurrent first starts: one runs, the other gets an error', async (t) => {
  const dataDir = await temporaryFolder(t);
  const said = await Promise.all([hold(t, dataDir), hold(t, dataDir)].map((holder) => holder.next()));
  const running = said.filter(({ address }) => address !== undefined);
  assert.equal(running.length, 1, JSON.stringify(said));
  assert.match(said.find(({ error }) => error)?.error ?? '', /^DatabaseError: Another Halcyon is running on /);
  assert.deepEqual(await ask(running[0]?.address, 'select 1 as n'), [{ n: 1 }]);
});

/** Kills the server and waits until another one has the data, or none is started any more. */
async function killServer(dataDir: string, address: DatabaseAddress | undefined, isOver = () => false): Promise<void> {
  const killed = await postmasterOf(dataDir);
  process.kill(killed, 'SIGKILL');
  await until(
    async () => {
      const pid = await postmasterOf(dataDir).catch(() => killed);
      return pid === killed ? [] : ask(address, 'select n from kept').catch(() => []);
    },
    (rows) => isOver() || JSON.stringify(rows) === '[{"n":7}]',
  );
}

test('a PostgreSQL that is killed is started again, at the same address and with the data', async (t) => {
  const dataDir = await temporaryFolder(t);
  const holder = hold(t, dataDir);
  const { address } = await holder.next();
  await ask(address, 'create table kept as select 7 as n');
  await ask(address, 'checkpoint');
  await killServer(dataDir, address);
  await holder.release();
  assert.deepEqual(await holder.next(), { exited: 'PostgreSQL ended with code 0' });
});

test('a PostgreSQL that is killed again and again is reported, and its pid file does not stop the next start', async (t) => {
  const dataDir = await temporaryFolder(t);
  const holder = hold(t, dataDir);
  const { address } = await holder.next();
  await ask(address, 'create table kept as select 7 as n');
  await ask(address, 'checkpoint');
  const end = { isOver: false };
  const reported = holder.next().finally(() => (end.isOver = true));
  // A kill during a start is followed by another attempt, which is not counted.
  for (let kills = 0; kills < 20 && !end.isOver; kills += 1) await killServer(dataDir, address, () => end.isOver);
  assert.ok(end.isOver);
  assert.deepEqual(await reported, { exited: 'PostgreSQL ended with SIGKILL' });
  await holder.release();
  const next = hold(t, dataDir);
  assert.deepEqual(await ask((await next.next()).address, 'select n from kept'), [{ n: 7 }]);
});

test('a pid file with the number of an unrelated process does not stop the next start', async (t) => {
  const dataDir = await temporaryFolder(t);
  const first = hold(t, dataDir);
  assert.ok((await first.next()).address);
  const path = join(dataDir, 'postgres/data/postmaster.pid');
  const lines = (await readFile(path, 'utf8')).split('\n');
  await first.release();
  // Of the same user, else PostgreSQL itself would recognize it as foreign.
  const stranger = spawn('cat', { stdio: 'pipe', ...(isRoot && UNPRIVILEGED) });
  t.after(() => void stranger.kill());
  await once(stranger, 'spawn');
  await writeFile(path, [stranger.pid, ...lines.slice(1)].join('\n'));

  const second = hold(t, dataDir);
  assert.deepEqual(await ask((await second.next()).address, 'select 1 as n'), [{ n: 1 }]);
  assert.ok(stranger.pid !== undefined && isAlive(stranger.pid), 'the unrelated process is left alone');
});

test('a crash in the middle of the first start does not affect the next two', async (t) => {
  const dataDir = await temporaryFolder(t);
  const home = join(dataDir, 'postgres');
  const unfinished = async (): Promise<string[]> =>
    (await readdir(home).catch(() => [])).filter((name) => name.startsWith('new.'));
  const inside = async (): Promise<string[]> => {
    const [name = 'none'] = await unfinished();
    return readdir(join(home, name, 'data')).catch(() => []);
  };
  const first = hold(t, dataDir);
  await until(inside, (names) => names.includes('PG_VERSION'));
  await first.kill();
  assert.equal((await readdir(home)).includes('data'), false);
  assert.equal((await unfinished()).length, 1);

  for (const start of ['second', 'third']) {
    const holder = hold(t, dataDir);
    assert.deepEqual(await ask((await holder.next()).address, 'select 1 as n'), [{ n: 1 }], start);
    await holder.release();
  }
  assert.deepEqual(await unfinished(), []);
});

test('control-C in the terminal reaches Halcyon and not PostgreSQL', async (t) => {
  const dataDir = await temporaryFolder(t);
  const holder = hold(t, dataDir);
  const { address } = await holder.next();
  process.kill(-holder.pid, 'SIGINT');
  assert.deepEqual(await holder.next(), { interrupted: true });
  assert.deepEqual(await ask(address, 'select 1 as n'), [{ n: 1 }]);
});
