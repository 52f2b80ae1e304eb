/** Starts the server process of the embedded cluster, detached from the terminal, and stops it when this process ends for any reason. */
import { spawn, type ChildProcess } from 'node:child_process';
import { open, readFile, rename, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { Account } from './binaries.ts';
import { programFailed } from './data-folder.ts';

export type Postmaster = { pid: number; stop: () => Promise<void>; exited: Promise<string> };

const LOG_LIMIT_BYTES = 1024 * 1024;
const CONNECTIONS_MIN = 200;
const READY_TIMEOUT_MS = 300_000;
const FAST_SHUTDOWN_MS = 10_000;
const POLL_MS = 5;
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
  const size = await stat(path).then(
    (file) => file.size,
    () => 0,
  );
  if (size > LOG_LIMIT_BYTES) await rename(path, `${path}.1`);
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
  const timer = setTimeout(() => child.kill('SIGQUIT'), SECOND_START_MS);
  const said = reasonIn(child.stderr === null ? '' : await textOf(child.stderr));
  clearTimeout(timer);
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
  const immediate = setTimeout(() => child.kill('SIGQUIT'), FAST_SHUTDOWN_MS);
  await exited;
  clearTimeout(immediate);
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
    await delay(POLL_MS, undefined, { signal });
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
