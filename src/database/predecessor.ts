/**
 * Who held this cluster before us: nobody, a server whose Halcyon was killed, or a Halcyon that still runs.
 */
import { readFile, rm } from 'node:fs/promises';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { OWNER } from './cluster.ts';
import { DatabaseError, isUnavailable, openPool } from './pool.ts';
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

/**
 * Makes way for a new server on `data`: waits for one that is shutting down, ends an orphan, removes a pid file whose
 * number now belongs to a stranger. Returns the socket folder of the predecessor, if there was one. Throws a
 * `DatabaseError` when a Halcyon is connected to it.
 */
export const endPredecessor = async (cluster: {
  dataDir: string;
  data: string;
  password: string;
}): Promise<string | undefined> => {
  const { dataDir, data, password } = cluster;
  const lines = await readPidFile(data);
  if (lines === undefined) return undefined;
  const [pidText, , startedSeconds, , directory] = lines;
  const pid = Number(pidText);
  if (!(await isServerOf(pid, data))) {
    await rm(join(data, 'postmaster.pid'), { force: true });
    return directory;
  }
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  let asked = false;
  while (await isServerOf(pid, data)) {
    const halcyons = asked || !directory ? undefined : await halcyonsOn(directory, password);
    if (halcyons !== undefined && halcyons > 0) {
      throw new DatabaseError(
        `Another Halcyon is running on ${dataDir}: stop it first, or set HALCYON_DATA to another folder`,
      );
    }
    if (halcyons === 0 && Date.now() - Number(startedSeconds) * 1000 > ORPHAN_AGE_MS) {
      process.kill(pid, 'SIGINT');
      asked = true;
    }
    if (performance.now() > deadline) {
      throw new DatabaseError(`The PostgreSQL of an earlier Halcyon (process ${pid}) does not end: stop it by hand`);
    }
    await delay(POLL_MS);
  }
  return directory;
};
