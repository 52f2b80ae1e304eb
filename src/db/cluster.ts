/**
 * The embedded cluster: initialises it (PostgreSQL's folder `data` is created under a temporary name and renamed when complete), finds the
 * server that already runs on it, and ends that if its Halcyon was killed.
 */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { chownRecursive, initialiserOf, programFailed, type Home } from './data-folder.ts';
import { DatabaseError, openPool } from './pool.ts';
import { readPidFile } from './postmaster.ts';
import { isUnavailable } from './unavailable.ts';

/** The name of the superuser and of the one database. */
export const OWNER = 'halcyon';

const run = promisify(execFile);

/** Returns whether a process with this id exists. */
function isAlive(pid: number): boolean {
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

const POLL_MS = 20;
const STOP_TIMEOUT_MS = 60_000;
/** The Halcyon of a younger server may not have connected yet. */
const ORPHAN_AGE_MS = 3_000;

/** Returns whether the process is a PostgreSQL on `data`; process ids are reused soon, in containers at once. */
async function isServerOf(pid: number, data: string): Promise<boolean> {
  try {
    if (process.platform === 'linux')
      return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').includes(data);
    const { stdout } = await run('ps', ['-o', 'args=', '-p', String(pid)]);
    return stdout.includes(`-D ${data} `);
  } catch {
    return false;
  }
}

/** Returns the number of connected Halcyon sessions; undefined while the server accepts no connections. */
async function countHalcyons(directory: string, password: string): Promise<number | undefined> {
  const address = { kind: 'socket', directory, user: OWNER, password, database: 'postgres' } as const;
  const sql = openPool(address, { connections: 1, applicationName: 'predecessor' });
  try {
    const [row] = await sql<{ halcyons: number }[]>`
      select count(*) as halcyons from pg_stat_activity where application_name like 'halcyon%'`;
    return row?.halcyons;
  } catch (error) {
    if (isUnavailable(error)) return undefined;
    throw error;
  } finally {
    await sql.end({ timeout: 0 });
  }
}

type Server = { pid: number; startedSeconds: number; directory: string };

/** Returns the server that runs on `data`, if any. */
export async function serverOn(data: string): Promise<Server | undefined> {
  const [pid, , startedSeconds, , directory = ''] = (await readPidFile(data)) ?? [];
  if (pid === undefined || !(await isServerOf(Number(pid), data))) return undefined;
  return { pid: Number(pid), startedSeconds: Number(startedSeconds), directory };
}

/** Returns the socket folder of the server on `data` if a Halcyon is connected to it. */
export async function busyServerOn(data: string, password: string): Promise<string | undefined> {
  const server = await serverOn(data);
  if (server === undefined || server.directory === '') return undefined;
  const halcyons = await countHalcyons(server.directory, password);
  return halcyons === undefined || halcyons === 0 ? undefined : server.directory;
}

/**
 * Removes a pid file whose process id now belongs to another program, because PostgreSQL would refuse to start. The file of a
 * dead process stays: PostgreSQL removes it after checking that no backend of the old server is alive.
 */
async function removeStalePidFile(data: string): Promise<void> {
  const [pid] = (await readPidFile(data)) ?? [];
  if (pid === undefined || !isAlive(Number(pid)) || (await isServerOf(Number(pid), data))) return;
  await rm(join(data, 'postmaster.pid'), { force: true });
}

/**
 * Waits for a server on `data` that is shutting down, and stops an orphan whose Halcyon was killed together with the watchdog.
 * Throws a `DatabaseError` if a Halcyon is connected to the server.
 */
export async function endPredecessor(cluster: { dataDir: string; data: string; password: string }): Promise<void> {
  const { dataDir, data, password } = cluster;
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  let isStopping = false;
  for (let server = await serverOn(data); server !== undefined; server = await serverOn(data)) {
    const { pid, startedSeconds, directory } = server;
    const halcyons = isStopping || directory === '' ? undefined : await countHalcyons(directory, password);
    if (halcyons !== undefined && halcyons > 0) {
      throw new DatabaseError(
        `Another Halcyon is running on ${dataDir}: stop it first, or set HALCYON_DATA to another folder`,
      );
    }
    if (halcyons === 0 && Date.now() - startedSeconds * 1000 > ORPHAN_AGE_MS) {
      process.kill(pid, 'SIGINT');
      isStopping = true;
    }
    if (performance.now() > deadline) {
      throw new DatabaseError(`The PostgreSQL of an earlier Halcyon (process ${pid}) does not end: stop it by hand`);
    }
    await delay(POLL_MS);
  }
  await removeStalePidFile(data);
}
