/** Finds the server that already runs on a cluster, and ends it if its Halcyon was killed. */
import { readFile, rm } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { isAlive, OWNER } from './cluster.ts';
import { DatabaseError, openPool } from './pool.ts';
import { isUnavailable } from './unavailable.ts';
import { readPidFile } from './postmaster.ts';

const POLL_MS = 20;
const STOP_TIMEOUT_MS = 60_000;
/** The Halcyon of a younger server may not have connected yet. */
const ORPHAN_AGE_MS = 3_000;

/** Returns whether the process is a PostgreSQL on `data`; process ids are reused soon, in containers at once. */
async function isServerOf(pid: number, data: string): Promise<boolean> {
  try {
    if (process.platform === 'linux')
      return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').includes(data);
    const { stdout } = await promisify(execFile)('ps', ['-o', 'args=', '-p', String(pid)]);
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
