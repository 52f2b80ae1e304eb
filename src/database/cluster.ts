/**
 * Where the embedded cluster lives on disk, and how it comes into being. `home` is `<dataDir>/postgres` or what that
 * links to; in it `data` is PostgreSQL's own folder, made under another name and renamed when complete.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from '#kernel/log.ts';
import { isReachable, type Account } from './binaries.ts';
import { DatabaseError } from './pool.ts';

export type Home = { home: string; account: Account };

/** The name of the superuser and of the one database. */
export const OWNER = 'halcyon';

const NOBODY = { uid: 65_534, gid: 65_534 };
const SYSTEM_HOME = '/var/lib/halcyon';
const run = promisify(execFile);

const unwritable = (dataDir: string, cause: unknown): DatabaseError => {
  const { code } = cause as NodeJS.ErrnoException;
  return new DatabaseError(
    `The data folder ${dataDir} cannot be written (${code}): make it writable, or set HALCYON_DATA to another folder`,
    { cause },
  );
};

const randomName = (): string => randomBytes(6).toString('hex');

const makeOwned = async (folder: string, account: Account): Promise<void> => {
  await mkdir(folder, { mode: 0o700 });
  if (account) await chown(folder, account.uid, account.gid);
};

const has = (error: unknown, ...codes: string[]): boolean =>
  codes.includes((error as NodeJS.ErrnoException).code ?? '');

/** Each step is atomic and yields to another Halcyon that makes the same home at the same moment. */
const makeHome = async (dataDir: string, path: string, account: Account, log?: Log): Promise<void> => {
  const isInside = await isReachable(dataDir, account);
  if (!isInside) {
    await mkdir(SYSTEM_HOME, { recursive: true });
    await chmod(SYSTEM_HOME, 0o755);
  }
  const home = isInside ? `${path}.${randomName()}.tmp` : join(SYSTEM_HOME, randomName());
  await makeOwned(home, account);
  try {
    // Never seen with another owner; the link comes after the folder, so one that leads nowhere means lost data.
    await (isInside ? rename(home, path) : symlink(home, path));
  } catch (error) {
    await rm(home, { recursive: true });
    if (has(error, 'EEXIST', 'ENOTEMPTY')) return;
    throw error;
  }
  if (!isInside)
    log?.info({ dataDir, home }, `user ${account?.uid} cannot reach ${dataDir}: the database lives in ${home}`);
};

/**
 * Finds or makes the folder of the cluster and decides who runs it: as root the folder's owner (65534 for a new one),
 * otherwise we ourselves. A `DatabaseError` tells what to do when the folder cannot be used.
 */
export const openHome = async (dataDir: string, log?: Log): Promise<Home> => {
  const isRoot = process.getuid?.() === 0;
  const path = join(dataDir, 'postgres');
  try {
    await mkdir(dataDir, { recursive: true });
    const there = await lstat(path).catch(() => undefined);
    if (there === undefined) await makeHome(dataDir, path, isRoot ? NOBODY : undefined, log);
    const home = await realpath(path).catch((cause: unknown) => {
      throw new DatabaseError(
        `${path} leads to a folder that is gone: bring it back, or remove the link to begin anew`,
        {
          cause,
        },
      );
    });
    const { uid, gid } = await stat(home);
    await readdir(home);
    return { home, account: isRoot ? { uid, gid } : undefined };
  } catch (error) {
    throw error instanceof DatabaseError ? error : unwritable(dataDir, error);
  }
};

const passwordPath = (dataDir: string): string => join(dataDir, 'postgres-password');

/** The password of the cluster; undefined before its first start. */
export const readPassword = async (dataDir: string): Promise<string | undefined> =>
  readFile(passwordPath(dataDir), 'utf8').then(
    (text) => text.trim(),
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    },
  );

/** The password, made at the first call; kept in `<dataDir>/postgres-password`, readable by us alone. */
export const keptPassword = async (dataDir: string): Promise<string> => {
  const path = passwordPath(dataDir);
  try {
    const kept = await readPassword(dataDir);
    if (kept !== undefined) return kept;
    const password = randomBytes(24).toString('base64url');
    const temporary = `${path}.${randomName()}.tmp`;
    await writeFile(temporary, `${password}\n`, { mode: 0o600, flush: true });
    // Not renamed: the password of another Halcyon that starts at this moment must not be overwritten.
    await link(temporary, path).catch((error: unknown) => {
      if (!has(error, 'EEXIST')) throw error;
    });
    await rm(temporary);
    return (await readPassword(dataDir)) ?? password;
  } catch (error) {
    throw unwritable(dataDir, error);
  }
};

/** Whether any process has this number. */
export const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
};

/** Removes what crashed starts left: unfinished clusters are called `new.<pid of the maker>.<random>`. */
const sweep = async (home: string): Promise<void> => {
  for (const name of await readdir(home)) {
    const maker = Number(/^new\.(\d+)\./.exec(name)?.[1]);
    if (Number.isNaN(maker) || (maker !== process.pid && isAlive(maker))) continue;
    // An initdb whose parent was killed may still be writing; what it leaves then goes at the start after this one.
    await rm(join(home, name), { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
  }
};

/**
 * The folder of an initialised cluster in `home`, initialised now if there is none. Crash-safe: a folder called `data` is
 * always complete. UTF-8, sorted by code point, the same on every machine.
 */
export const openCluster = async (
  { home, account }: Home,
  options: { binaries: string; password: string; durable: boolean },
): Promise<string> => {
  await sweep(home);
  const data = join(home, 'data');
  if (await stat(data).catch(() => undefined)) return data;
  const scratch = await mkdtemp(join(home, `new.${process.pid}.`));
  const passwordFile = join(scratch, 'password');
  await writeFile(passwordFile, options.password, { mode: 0o600 });
  if (account) for (const path of [scratch, passwordFile]) await chown(path, account.uid, account.gid);
  const identity = ['-U', OWNER, '-A', 'scram-sha-256', '--pwfile', passwordFile];
  const locale = ['-E', 'UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const sync = options.durable ? [] : ['--no-sync'];
  const args = ['-D', join(scratch, 'data'), ...identity, ...locale, ...sync, '--no-instructions'];
  try {
    await run(join(options.binaries, 'bin', 'initdb'), args, { ...account, cwd: home, env: { PATH: '/usr/bin:/bin' } });
    await rename(join(scratch, 'data'), data);
  } catch (cause) {
    if (await stat(data).catch(() => undefined)) return data; // another Halcyon was faster
    const { stderr, message } = cause as Error & { stderr?: string };
    throw new DatabaseError(`PostgreSQL cannot be initialised in ${home}: ${(stderr || message).trim()}`, { cause });
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  return data;
};
