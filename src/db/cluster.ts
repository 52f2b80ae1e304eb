/**
 * How the embedded cluster comes into being: in its home, PostgreSQL's own folder is `data`, made under another name and
 * renamed when complete.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { giveTo, initialiserOf } from './account.ts';
import { programFailed, type Home } from './data-folder.ts';
import { DatabaseError } from './pool.ts';

/** The name of the superuser and of the one database. */
export const OWNER = 'halcyon';

const run = promisify(execFile);

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
  if (await stat(data).catch(() => undefined)) {
    if (await stat(join(data, 'PG_VERSION')).catch(() => undefined)) return data;
    throw new DatabaseError(
      `${data} is no database of PostgreSQL: move it away, or set HALCYON_DATA to another folder`,
    );
  }
  const scratch = await mkdtemp(join(home, `new.${process.pid}.`));
  const passwordFile = join(scratch, 'password');
  await writeFile(passwordFile, options.password, { mode: 0o600 });
  const initialiser = initialiserOf(account);
  if (initialiser) await giveTo(initialiser, [scratch]);
  const identity = ['-U', OWNER, '-A', 'scram-sha-256', '--pwfile', passwordFile];
  const locale = ['-E', 'UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'];
  const sync = options.durable ? [] : ['--no-sync'];
  const args = ['-D', join(scratch, 'data'), ...identity, ...locale, ...sync, '--no-instructions'];
  try {
    if (initialiser !== account) await chmod(home, 0o710);
    await run(join(options.binaries, 'bin', 'initdb'), args, {
      ...initialiser,
      cwd: scratch,
      env: { PATH: '/usr/bin:/bin' },
    });
    if (account && initialiser !== account) await giveTo(account, [join(scratch, 'data')]);
    await rename(join(scratch, 'data'), data);
  } catch (cause) {
    if (await stat(data).catch(() => undefined)) return data; // another Halcyon was faster
    const { stderr, message } = cause as Error & { stderr?: string };
    throw programFailed(`PostgreSQL cannot be initialised in ${home}`, stderr || message);
  } finally {
    if (initialiser !== account) await chmod(home, 0o700);
    await rm(scratch, { recursive: true, force: true });
  }
  return data;
};
