/**
 * The embedded cluster: initialises it (PostgreSQL's folder `data` is created under a temporary name and renamed when complete), finds the
 * server that already runs on it, and ends that if its Halcyon was killed. The server process is detached from the terminal, and is stopped when
 * this process ends for any reason.
 */
import { spawn, type ChildProcess, execFile } from 'node:child_process';
import { open, readFile, rename, stat, statfs, chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type Account, programFailed, chownRecursive, initialiserOf, type Home } from './data-folder.ts';
import { DatabaseError, openPool } from './pool.ts';
import { isUnavailable } from './unavailable.ts';

export type Postmaster = { pid: number; stop: () => Promise<void>; exited: Promise<string> };

const LOG_LIMIT_BYTES = 1024 * 1024;
const CONNECTIONS_MIN = 200;
const READY_TIMEOUT_MS = 300_000;
const FAST_SHUTDOWN_MS = 10_000;
const STOP_POLL_MS = 5;
/** PostgreSQL that cannot start ends within milliseconds. */
const SECOND_START_MS = 5_000;
const FULL_BELOW_BYTES = 1024 * 1024;

const SETTINGS = {
  listen_addresses: '',
  port: '5432',
  unix_socket_permissions: '0700',
  shared_buffers: '256MB',
  jit: 'off',
  // A delivery insert writes 4.9 KB of WAL just after a checkpoint and 0.3 KB later, so checkpoints are rare.
  max_wal_size: '4GB',
  checkpoint_timeout: '15min',
  // lz4 would be faster, but is not built into these binaries.
  wal_compression: 'pglz',
  // The application logs rejected statements: these lines would contain values and grow the file without a limit.
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_checkpoints: 'off',
};
// For tests, which may keep the cluster in memory, with little WAL.
const NOT_DURABLE = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off', max_wal_size: '256MB' };

async function openLog(path: string) {
  const present = await stat(path).catch(() => undefined);
  if (present && present.size > LOG_LIMIT_BYTES) await rename(path, `${path}.1`);
  return open(path, 'a', 0o600);
}

const SHOWN_LINES = 5;
/** A session is refused while the server starts, which says nothing about its end. */
const REASON = /\b(?:PANIC|FATAL(?!: +the database system is)): /;

/** Returns the reason that PostgreSQL gives for its end, with the lines after it; without one the last lines. */
function reasonIn(log: string): { lines: string; isFound: boolean } {
  const lines = log.trim().split('\n');
  const at = lines.findIndex((line) => REASON.test(line));
  const isFound = at >= 0;
  return {
    lines: lines
      .slice(isFound ? at : -SHOWN_LINES)
      .slice(0, SHOWN_LINES)
      .join('\n'),
    isFound,
  };
}

/** Returns why PostgreSQL does not start. A full disk has no space for its log: then PostgreSQL is started once more, to a pipe. */
async function reasonOf(path: string, from: number, startAgain: () => ChildProcess): Promise<string> {
  const logged = reasonIn((await readFile(path)).subarray(from).toString());
  const { bavail, bsize } = await statfs(dirname(path));
  if (logged.isFound || bavail * bsize > FULL_BELOW_BYTES) return logged.lines;
  const child = startAgain();
  child.on('error', () => {});
  using _timer = setTimeout(() => child.kill('SIGQUIT'), SECOND_START_MS);
  const said = reasonIn(child.stderr === null ? '' : await textOf(child.stderr));
  return said.isFound ? said.lines : logged.lines;
}

/**
 * Starts a watchdog that sends the postmaster a fast shutdown when this process ends, also after `kill -9`: its only file is a
 * pipe whose other end closes with this process. The returned function ends it by writing a line to the pipe.
 */
function startWatchdog(pid: number, account: Account): () => void {
  const watchdog = spawn('/bin/sh', ['-c', 'read line || kill -INT "$1"', 'halcyon-watchdog', String(pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
    ...account,
  });
  watchdog.on('error', () => {});
  watchdog.stdin.on('error', () => {});
  watchdog.unref();
  return () => watchdog.stdin.end('\n');
}

const stopper = (child: ChildProcess, exited: Promise<string>) => async (): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  child.kill('SIGINT');
  // An immediate shutdown loses no committed data; the next start takes longer.
  using _immediate = setTimeout(() => child.kill('SIGQUIT'), FAST_SHUTDOWN_MS);
  await exited;
};

/** Returns the lines of postmaster.pid: [pid, data folder, start in Unix seconds, port, socket folder, …, status]. */
export async function readPidFile(data: string): Promise<string[] | undefined> {
  return readFile(join(data, 'postmaster.pid'), 'utf8').then(
    (text) => text.split('\n').map((line) => line.trim()),
    () => undefined,
  );
}

async function untilReady(data: string, pid: number, signal: AbortSignal): Promise<void> {
  for (;;) {
    const lines = await readPidFile(data);
    if (lines?.[0] === String(pid) && lines[7] === 'ready') return;
    await delay(STOP_POLL_MS, undefined, { signal });
  }
}

/**
 * Starts PostgreSQL on `data` and waits until it accepts connections, including crash recovery. Throws a `DatabaseError` with the
 * last log lines if it does not start. `exited` resolves with a description when the server ends.
 */
export async function startPostmaster(options: {
  binaries: string;
  account: Account;
  data: string;
  socketDirectory: string;
  logFile: string;
  durable: boolean;
  /** How many connections Halcyon may open. */
  connectionsMax?: number | undefined;
}): Promise<Postmaster> {
  const { binaries, account, data, socketDirectory, logFile, durable, connectionsMax = CONNECTIONS_MIN } = options;
  const settings = {
    ...SETTINGS,
    max_connections: String(Math.max(CONNECTIONS_MIN, connectionsMax)),
    unix_socket_directories: socketDirectory,
    ...(durable ? {} : NOT_DURABLE),
  };
  const args = ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const log = await openLog(logFile);
  const logStart = (await log.stat()).size;
  const start = (output: number | 'pipe'): ChildProcess =>
    spawn(join(binaries, 'bin', 'postgres'), args, {
      // A separate process group: ctrl-C in the terminal must not shut it down before this process has finished.
      detached: true,
      stdio: ['ignore', output, output],
      cwd: data,
      env: { PATH: '/usr/bin:/bin' },
      ...account,
    });
  const child = start(log.fd);
  const stopWatchdog = child.pid === undefined ? () => {} : startWatchdog(child.pid, account);
  const failed = new AbortController();
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(`PostgreSQL ended with ${signal ?? `code ${code}`}`));
  });
  void exited.then(() => (failed.abort(), stopWatchdog()));
  await log.close();
  const stop = stopper(child, exited);
  const pid = child.pid ?? 0;
  try {
    await untilReady(data, pid, AbortSignal.any([failed.signal, AbortSignal.timeout(READY_TIMEOUT_MS)]));
  } catch {
    await stop();
    const reason = await reasonOf(logFile, logStart, () => start('pipe'));
    throw programFailed(`PostgreSQL did not start (${await exited})`, reason);
  }
  child.unref();
  return { pid, stop, exited };
}

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
