/** Initialises the embedded cluster: PostgreSQL's folder `data` is created under a temporary name and renamed when complete. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chownRecursive, initialiserOf, programFailed, type Home } from './data-folder.ts';
import { DatabaseError } from './pool.ts';

/** The name of the superuser and of the one database. */
export const OWNER = 'halcyon';

const run = promisify(execFile);

/** Returns whether a process with this id exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Removes unfinished clusters of crashed starts, named `new.<pid of the creator>.<random>`. */
async function removeUnfinished(home: string): Promise<void> {
  for (const name of await readdir(home)) {
    const creator = Number(/^new\.(\d+)\./.exec(name)?.[1]);
    if (Number.isNaN(creator) || (creator !== process.pid && isAlive(creator))) continue;
    // An initdb whose parent was killed may still be writing; the next start removes the rest.
    await rm(join(home, name), { recursive: true, force: true, maxRetries: 3 }).catch(() => {});
  }
}

/**
 * Returns the folder of the cluster in `home`, initialised if it is missing. A folder named `data` is always complete, also
 * after a crash. The encoding is UTF-8, sorted by code point, the same on every machine.
 */
export async function openCluster(
  { home, account }: Home,
  options: { binaries: string; password: string; durable: boolean },
): Promise<string> {
  await removeUnfinished(home);
  const data = join(home, 'data');
  if (await stat(data).catch(() => undefined)) {
    if (await stat(join(data, 'PG_VERSION')).catch(() => undefined)) return data;
    throw new DatabaseError(`${data} is not a PostgreSQL cluster: move it away, or set HALCYON_DATA to another folder`);
  }
  const scratch = await mkdtemp(join(home, `new.${process.pid}.`));
  const passwordFile = join(scratch, 'password');
  await writeFile(passwordFile, options.password, { mode: 0o600 });
  const initialiser = initialiserOf(account);
  if (initialiser) await chownRecursive(initialiser, [scratch]);
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
    if (account && initialiser !== account) await chownRecursive(account, [join(scratch, 'data')]);
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
}
