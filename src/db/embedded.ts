/** Starts the embedded PostgreSQL, so that Halcyon runs with nothing else installed. One Halcyon per data folder. */
import { chown, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Log } from '#core/log.ts';
import { findPackage, usableBinaries, type Account } from './binaries.ts';
import { openCluster, OWNER } from './cluster.ts';
import { openHome } from './data-folder.ts';
import { readOrCreatePassword, readPassword } from './password.ts';
import { openPool, type DatabaseAddress, type Sql } from './pool.ts';
import { readPidFile, startPostmaster } from './postmaster.ts';
import { startSupervised } from './supervised.ts';
import { busyServerOn, endPredecessor, serverOn } from './predecessor.ts';
import { finishMove, reachableHome } from './relocate.ts';

export type Embedded = {
  address: DatabaseAddress;
  /** Stops the server and waits until it has ended; may be called twice. */
  stop: () => Promise<void>;
  /** Resolves with a description when the server has been stopped, or has ended and could not be started again. */
  exited: Promise<string>;
};

const SYSTEM_CACHE = '/var/cache/halcyon';
/** A Unix socket address has 104 bytes (macOS) or 108 (Linux), including its final zero and `/.s.PGSQL.5432.lock`. */
const SOCKET_DIRECTORY_BYTES = 80;
const SHORT_PREFIX = join(tmpdir(), 'halcyon-socket-');

async function makeSocketDirectory(home: string, account: Account): Promise<string> {
  if (Buffer.byteLength(home) <= SOCKET_DIRECTORY_BYTES) return home;
  const directory = await mkdtemp(SHORT_PREFIX);
  if (account) await chown(directory, account.uid, account.gid);
  return directory;
}

async function removeSocketDirectory(directory: string): Promise<void> {
  if (directory.startsWith(SHORT_PREFIX)) await rm(directory, { recursive: true, force: true });
}

/**
 * Creates the database at the first start. The connection stays open while this process runs: a second Halcyon recognises by it
 * that the server is not an orphan.
 */
async function claim(sql: Sql): Promise<void> {
  const found = await sql`select from pg_database where datname = ${OWNER}`;
  if (found.length === 0) await sql`create database ${sql(OWNER)}`;
}

/**
 * Returns the address of the server that a running Halcyon has started on `dataDir`, for short-lived commands; undefined if none
 * runs.
 */
export async function findRunning(dataDir: string): Promise<DatabaseAddress | undefined> {
  const password = await readPassword(dataDir);
  const data = await realpath(join(dataDir, 'postgres', 'data')).catch(() => undefined);
  if (password === undefined || data === undefined) return undefined;
  const directory = await busyServerOn(data, password);
  return directory === undefined ? undefined : { kind: 'socket', directory, user: OWNER, password, database: OWNER };
}

/** Returns the id of the server process on `dataDir`, also while it accepts no connections; undefined if none runs. */
export async function findServer(dataDir: string): Promise<number | undefined> {
  const data = await realpath(join(dataDir, 'postgres', 'data')).catch(() => undefined);
  return data === undefined ? undefined : (await serverOn(data))?.pid;
}

/**
 * Starts the cluster in `dataDir`, created at the first start. `durable: false` trades crash safety for speed and is for tests.
 * Throws a `DatabaseError` with a remedy if another Halcyon runs on the folder, the folder cannot be written, the platform has
 * no binaries, or the server does not start.
 */
export async function startEmbedded(options: {
  dataDir: string;
  durable?: boolean;
  connectionsMax?: number;
  log?: Log;
}): Promise<Embedded> {
  const { dataDir, durable = true, connectionsMax, log } = options;
  const found = await findPackage();
  await finishMove(dataDir);
  const { home, account } = await reachableHome(dataDir, await openHome(dataDir, log), log);
  const password = await readOrCreatePassword(dataDir);
  const cache = account ? SYSTEM_CACHE : dataDir;
  const binaries = await usableBinaries(found, { account, cache });
  const data = await openCluster({ home, account }, { binaries, password, durable });
  const oldSocketDirectory = (await readPidFile(data))?.[4];
  await endPredecessor({ dataDir, data, password });
  // A killed server leaves its socket folder in the system's temporary folder.
  if (oldSocketDirectory !== undefined) await removeSocketDirectory(oldSocketDirectory);

  const directory = await makeSocketDirectory(home, account);
  const logFile = join(home, 'server.log');
  const address = { kind: 'socket', directory, user: OWNER, password, database: OWNER } as const;
  try {
    const sql = openPool({ ...address, database: 'postgres' }, { connections: 1, applicationName: 'halcyon' });
    const postmaster = await startSupervised({
      start: () =>
        startPostmaster({ binaries, account, data, socketDirectory: directory, logFile, durable, connectionsMax }),
      onRestarted: () => claim(sql),
      log,
    }).catch(async (error: unknown) => {
      // Throws if another Halcyon was faster.
      await endPredecessor({ dataDir, data, password });
      throw error;
    });
    const stop = async (): Promise<void> => {
      await sql.end({ timeout: 0 });
      await postmaster.stop();
      await removeSocketDirectory(directory);
    };
    await claim(sql).catch(async (error: unknown) => {
      await stop();
      throw error;
    });
    log?.info({ home: dirname(data), postmaster: postmaster.pid }, 'embedded PostgreSQL is ready');
    return { address, stop, exited: postmaster.exited };
  } catch (error) {
    await removeSocketDirectory(directory);
    throw error;
  }
}
