/**
 * Who held this cluster before us: nobody, a server whose Halcyon was killed, or a Halcyon that still runs.
 */
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
/** A younger server may belong to a Halcyon that has not connected yet. */
const ORPHAN_AGE_MS = 3_000;

/** Whether the process is a PostgreSQL on `data`; numbers of processes are soon reused, in containers at once. */
const isServerOf = async (pid: number, data: string): Promise<boolean> => {
  try {
    if (process.platform === 'linux')
      return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').includes(data);
    const { stdout } = await promisify(execFile)('ps', ['-o', 'args=', '-p', String(pid)]);
    return stdout.includes(`-D ${data} `);
  } catch {
    return false;
  }
};

/** How many Halcyons are connected; undefined while the server does not take connections. */
const halcyonsOn = async (directory: string, password: string): Promise<number | undefined> => {
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
};

type Server = { pid: number; startedSeconds: number; directory: string };

/** The server that runs on `data`, if one does. */
export const serverOn = async (data: string): Promise<Server | undefined> => {
  const [pid, , startedSeconds, , directory = ''] = (await readPidFile(data)) ?? [];
  if (pid === undefined || !(await isServerOf(Number(pid), data))) return undefined;
  return { pid: Number(pid), startedSeconds: Number(startedSeconds), directory };
};

/** The socket folder of the server on `data` when a Halcyon is connected to it. */
export const busyServerOn = async (data: string, password: string): Promise<string | undefined> => {
  const server = await serverOn(data);
  if (server === undefined || server.directory === '') return undefined;
  const halcyons = await halcyonsOn(server.directory, password);
  return halcyons === undefined || halcyons === 0 ? undefined : server.directory;
};

/**
 * Removes the pid file whose number now belongs to a stranger, which PostgreSQL takes for itself. That of a dead process
 * stays: PostgreSQL clears it when it has seen that no backend of the old server lives on.
 */
const removeStrangersPidFile = async (data: string): Promise<void> => {
  const [pid] = (await readPidFile(data)) ?? [];
  if (pid === undefined || !isAlive(Number(pid)) || (await isServerOf(Number(pid), data))) return;
  await rm(join(data, 'postmaster.pid'), { force: true });
};

/**
 * Makes way for a new server on `data`: waits for one that is shutting down and ends an orphan, whose Halcyon was killed
 * together with the watchdog. Throws a `DatabaseError` when a Halcyon is connected to it.
 */
export const endPredecessor = async (cluster: { dataDir: string; data: string; password: string }): Promise<void> => {
  const { dataDir, data, password } = cluster;
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  let asked = false;
  for (let server = await serverOn(data); server !== undefined; server = await serverOn(data)) {
    const { pid, startedSeconds, directory } = server;
    const halcyons = asked || directory === '' ? undefined : await halcyonsOn(directory, password);
    if (halcyons !== undefined && halcyons > 0) {
      throw new DatabaseError(
        `Another Halcyon is running on ${dataDir}: stop it first, or set HALCYON_DATA to another folder`,
      );
    }
    if (halcyons === 0 && Date.now() - startedSeconds * 1000 > ORPHAN_AGE_MS) {
      process.kill(pid, 'SIGINT');
      asked = true;
    }
    if (performance.now() > deadline) {
      throw new DatabaseError(`The PostgreSQL of an earlier Halcyon (process ${pid}) does not end: stop it by hand`);
    }
    await delay(POLL_MS);
  }
  await removeStrangersPidFile(data);
};
