/**
 * The embedded PostgreSQL in all kinds of places: as root, as another user, in closed, long-named and foreign folders.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findPackage, isReachable, usableBinaries } from '#db/data-folder.ts';
import { findRunning, startEmbedded } from '#db/embedded.ts';
import { ask, hold, isRoot, UNPRIVILEGED, postmasterOf, temporaryFolder } from '../setup/embedded-process.ts';

const asRoot = { skip: isRoot ? false : 'only root can be another user' };
const canBeNobody =
  isRoot &&
  (await isReachable(process.execPath, UNPRIVILEGED)) &&
  (await isReachable(import.meta.dirname, UNPRIVILEGED));
const asNobody = { skip: canBeNobody ? false : 'user 65534 cannot reach this folder' };

test(
  'as root, under a folder that only root may enter, the database is stored elsewhere, and is found again',
  asRoot,
  async (t) => {
    const dataDir = await temporaryFolder(t, { mode: 0o700 });
    const first = hold(t, dataDir);
    await ask((await first.next()).address, 'create table kept as select 7 as n');
    const home = await readlink(join(dataDir, 'postgres'));
    assert.match(home, /^\/var\/lib\/halcyon\/[0-9a-f]{12}$/);
    await first.release();
    assert.match(await first.log, new RegExp(`the database lives in ${home}`));

    const second = hold(t, dataDir);
    assert.deepEqual(await ask((await second.next()).address, 'select n from kept'), [{ n: 7 }]);
    assert.equal(await readlink(join(dataDir, 'postgres')), home);
    await second.release();

    await rm(home, { recursive: true });
    const third = hold(t, dataDir);
    assert.match((await third.next()).error ?? '', /^DatabaseError: .*postgres leads to a folder that is gone/);
  },
);

test('as root, a move to another folder that was interrupted at any moment is finished', asRoot, async (t) => {
  const dataDir = await temporaryFolder(t);
  const home = join(dataDir, 'postgres');
  const first = hold(t, dataDir);
  await ask((await first.next()).address, 'create table kept as select 7 as n');
  await first.release();
  await chmod(dataDir, 0o700);
  const name = randomBytes(6).toString('hex');
  const [target, link] = [`/var/lib/halcyon/${name}`, join(dataDir, `postgres.${name}.moved`)];
  t.after(() => rm(target, { recursive: true, force: true }));
  const tables = "select tablename from pg_tables where tablename = 'kept'";
  for (const isMoved of [false, true]) {
    await symlink(target, link);
    if (isMoved) await rename(await realpath(home), target);
    if (isMoved) await rm(home, { force: true });
    const next = hold(t, dataDir);
    assert.deepEqual(await ask((await next.next()).address, tables), [{ tablename: 'kept' }]);
    await next.release();
    assert.deepEqual((await readdir(dataDir)).toSorted(), ['postgres', 'postgres-password']);
  }
});

test(
  'as root, a database stays where a running server has it, also if its folder is closed meanwhile',
  asRoot,
  async (t) => {
    const dataDir = await temporaryFolder(t);
    const first = hold(t, dataDir);
    const { address } = await first.next();
    await chmod(dataDir, 0o700);
    assert.match((await hold(t, dataDir).next()).error ?? '', /Another Halcyon is running/);
    assert.deepEqual(await ask(address, 'select 1 as n'), [{ n: 1 }]);
    assert.ok((await lstat(join(dataDir, 'postgres'))).isDirectory());
  },
);

/** Returns the owners of the folder and of all that is in it. */
async function ownersOf(folder: string): Promise<number[]> {
  const entries = await readdir(folder, { recursive: true });
  const owners = await Promise.all([folder, ...entries.map((name) => join(folder, name))].map((path) => lstat(path)));
  return [...new Set(owners.map(({ uid }) => uid))];
}

test(
  'as root, PostgreSQL runs as a user without an account, and only root can read the password',
  asRoot,
  async (t) => {
    const dataDir = await temporaryFolder(t);
    const holder = hold(t, dataDir);
    assert.ok((await holder.next()).address);
    const home = await lstat(join(dataDir, 'postgres'));
    assert.deepEqual([home.isDirectory(), home.mode & 0o777], [true, 0o700]);
    const accounts = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => Number(line.split(':')[2]));
    assert.ok(home.uid >= 65_520 && home.uid <= 65_533 && !accounts.includes(home.uid), String(home.uid));
    assert.deepEqual(await ownersOf(join(dataDir, 'postgres/data')), [home.uid]);
    const [, uid] = /^Uid:\t(\d+)/m.exec(await readFile(`/proc/${await postmasterOf(dataDir)}/status`, 'utf8')) ?? [];
    assert.equal(Number(uid), home.uid);
    const password = await stat(join(dataDir, 'postgres-password'));
    assert.deepEqual([password.uid, password.mode & 0o777], [0, 0o600]);
  },
);

test(
  'as root, a copy that was unpacked without its owners gets the user of PostgreSQL, also after an interruption',
  asRoot,
  async (t) => {
    const dataDir = await temporaryFolder(t);
    const home = join(dataDir, 'postgres');
    const secret = join(await temporaryFolder(t), 'secret');
    await writeFile(secret, 'x');
    const first = hold(t, dataDir);
    await ask((await first.next()).address, 'create table kept as select 7 as n');
    await first.release();
    const [own] = await ownersOf(home);
    for (const name of ['', 'data/base']) {
      await promisify(execFile)('chown', ['-R', '0:0', join(home, name)]);
      await chown(home, 0, 0);
      await symlink(secret, join(home, `link-${name.length}`));
      const next = hold(t, dataDir);
      assert.deepEqual(await ask((await next.next()).address, 'select n from kept'), [{ n: 7 }]);
      await next.release();
      assert.deepEqual(await ownersOf(home), [own]);
      assert.equal((await stat(secret)).uid, 0, 'the target of a link keeps its owner');
    }
  },
);

test('as root, a database of another user stays with it', asRoot, async (t) => {
  const dataDir = await temporaryFolder(t);
  const home = join(dataDir, 'postgres');
  const first = hold(t, dataDir);
  await first.next();
  await first.release();
  await promisify(execFile)('chown', ['-R', `${UNPRIVILEGED.uid}:${UNPRIVILEGED.gid}`, home]);
  const next = hold(t, dataDir);
  assert.deepEqual(await ask((await next.next()).address, 'select 1 as n'), [{ n: 1 }]);
  assert.equal((await stat(home)).uid, UNPRIVILEGED.uid);
});

test('as an ordinary user, everything is in the folder and belongs to that user', asNobody, async (t) => {
  const dataDir = await temporaryFolder(t, { mode: 0o700, owner: UNPRIVILEGED });
  const holder = hold(t, dataDir, UNPRIVILEGED);
  const [row] = (await ask((await holder.next()).address, 'show data_directory')) as { data_directory: string }[];
  assert.equal(row?.data_directory, join(dataDir, 'postgres/data'));
  assert.equal((await stat(join(dataDir, 'postgres-password'))).uid, UNPRIVILEGED.uid);
});

test('a folder that cannot be written is reported in one line', asNobody, async (t) => {
  const dataDir = await temporaryFolder(t);
  const { error } = await hold(t, dataDir, UNPRIVILEGED).next();
  assert.equal(
    error,
    `DatabaseError: The data folder ${dataDir} cannot be written (EACCES). Make it writable, or set HALCYON_DATA to another folder`,
  );
});

test(
  'binaries that the user cannot reach are copied once, completely, with the links between the libraries',
  asRoot,
  async (t) => {
    const [closed, cache] = [await temporaryFolder(t, { mode: 0o700 }), join(await temporaryFolder(t), 'cache')];
    const { folder, version } = await findPackage();
    await cp(join(folder, 'native'), join(closed, 'native'), { recursive: true, verbatimSymlinks: true });
    const links = JSON.parse(await readFile(join(folder, 'native/pg-symlinks.json'), 'utf8')) as { target: string }[];
    assert.ok(links.length > 0);
    for (const { target } of links) await rm(join(closed, target));

    const found = { folder: closed, version };
    const copies = await Promise.all([1, 2].map(() => usableBinaries(found, { account: UNPRIVILEGED, cache })));
    const copy = join(cache, `postgresql-${version}`);
    assert.deepEqual(copies, [copy, copy]);
    for (const { target } of links)
      assert.ok((await lstat(join(copy, target.replace('native/', '')))).isSymbolicLink(), target);
    const { stdout } = await promisify(execFile)(join(copy, 'bin/postgres'), ['--version'], {
      ...UNPRIVILEGED,
      cwd: '/',
    });
    assert.match(stdout, /PostgreSQL\) 18\./);
    assert.deepEqual([(await stat(copy)).uid, (await stat(copy)).mode & 0o777], [0, 0o755]);

    const { ino } = await stat(copy);
    assert.equal(await usableBinaries(found, { account: UNPRIVILEGED, cache }), copy);
    assert.equal((await stat(copy)).ino, ino);
  },
);

test('binaries that the user can reach are used where they are, and their links created there', async (t) => {
  const open = await temporaryFolder(t);
  const { folder, version } = await findPackage();
  await cp(join(folder, 'native'), join(open, 'native'), { recursive: true, verbatimSymlinks: true });
  const [link] = JSON.parse(await readFile(join(folder, 'native/pg-symlinks.json'), 'utf8')) as { target: string }[];
  assert.ok(link);
  await rm(join(open, link.target));
  const account = isRoot ? UNPRIVILEGED : undefined;
  const native = await usableBinaries({ folder: open, version }, { account, cache: join(open, 'cache') });
  assert.equal(native, join(open, 'native'));
  assert.ok((await lstat(join(open, link.target))).isSymbolicLink());
});

test('a long path works: the socket then has a short path of its own, removed by the stop', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'x'.repeat(120));
  await mkdir(dataDir);
  await chmod(dataDir, 0o755);
  const { address, stop } = await startEmbedded({ dataDir, durable: false });
  try {
    assert.deepEqual(await ask(address, 'select 1 as n'), [{ n: 1 }]);
  } finally {
    await stop();
  }
  assert.ok(address.kind === 'socket' && address.directory.length < 80);
  await assert.rejects(stat(address.directory), { code: 'ENOENT' });
});

test('a command finds the server of a running Halcyon, and none if none runs', async (t) => {
  const dataDir = await temporaryFolder(t);
  assert.equal(await findRunning(dataDir), undefined);
  const holder = hold(t, dataDir);
  const { address } = await holder.next();
  assert.deepEqual(await findRunning(dataDir), address);
  await holder.release();
  assert.equal(await findRunning(dataDir), undefined);
});
