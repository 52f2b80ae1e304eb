/** Starts the embedded PostgreSQL, so that Halcyon runs with nothing else installed. One Halcyon per data folder. */
import {
  chown,
  mkdtemp,
  realpath,
  rm,
  link,
  readFile,
  writeFile,
  lstat,
  readdir,
  rename,
  stat,
  symlink,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, basename } from 'node:path';
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '#core/log.ts';
import {
  findPackage,
  usableBinaries,
  type Account,
  isReachable,
  openHome,
  hasCode,
  unreadable,
  unwritable,
  newSystemHome,
  type Home,
} from './data-folder.ts';
import {
  busyServerOn,
  endPredecessor,
  openCluster,
  OWNER,
  serverOn,
  readPidFile,
  startPostmaster,
  type Postmaster,
} from './cluster.ts';
import { openPool, type DatabaseAddress, type Sql, DatabaseError } from './pool.ts';
import { UnusableError } from './usable.ts';

// Starts the server process of the embedded cluster again when it ends by itself, so that a crash does not end Halcyon.

/** A server that ends more often than this within a minute is not started again. */
const RESTARTS_MAX = 5;
const MINUTE_MS = 60_000;
/** The session processes of a killed server end by themselves, and it cannot start before. */
const ATTEMPTS_MS = 10_000;
const PAUSE_MS = 100;

type Deps = {
  start: () => Promise<Postmaster>;
  /** Called after each restart, when the server accepts connections. */
  onRestarted: () => Promise<void>;
  log: Log | undefined;
};

/** Repeats `start` until it succeeds; throws its last error after `ATTEMPTS_MS`. */
async function startAgain(start: Deps['start'], isStopping: () => boolean): Promise<Postmaster> {
  const deadline = performance.now() + ATTEMPTS_MS;
  for (;;) {
    try {
      return await start();
    } catch (error) {
      if (isStopping() || performance.now() > deadline) throw error;
      await delay(PAUSE_MS);
    }
  }
}

/**
 * Starts the server and keeps it running. `exited` resolves when it has been stopped, or has ended and could not be started again;
 * `stop` may be called at any time.
 */
async function startSupervised({ start, onRestarted, log }: Deps): Promise<Postmaster> {
  let running = await start();
  let isStopping = false;

  const watch = async (): Promise<string> => {
    let endsMs: number[] = [];
    for (;;) {
      const reason = await running.exited;
      const nowMs = performance.now();
      endsMs = [...endsMs.filter((ms) => nowMs - ms < MINUTE_MS), nowMs];
      if (isStopping || endsMs.length > RESTARTS_MAX) return reason;
      log?.error({ reason }, 'the embedded PostgreSQL ended by itself; starting it again');
      try {
        running = await startAgain(start, () => isStopping);
      } catch (error) {
        return `${reason}, and could not be started again: ${(error as Error).message}`;
      }
      // A stop that came meanwhile has stopped the previous server only.
      if (isStopping) await running.stop();
      // A server that has ended again is started again.
      else
        await onRestarted().catch((error: unknown) => {
          if (!isStopping) log?.warn({ err: error }, 'the restarted PostgreSQL does not respond');
        });
    }
  };

  const exited = watch();
  return {
    get pid() {
      return running.pid;
    },
    exited,
    stop: async () => {
      isStopping = true;
      await running.stop();
      await exited;
    },
  };
}

// Moves a cluster that its account cannot reach, such as a copy that root unpacked below a folder of mode 0700, to the folder of
// new clusters, and replaces it by a link. The link is created first, so that a crash loses nothing.

const LINK = /^postgres\.[0-9a-f]+\.moved$/;

/** Finishes an interrupted move: the cluster is in its new folder, but the link does not have its final name yet. */
async function finishMove(dataDir: string): Promise<void> {
  const path = join(dataDir, 'postgres');
  const names = await readdir(dataDir).catch(() => []);
  for (const moved of names.filter((name) => LINK.test(name)).map((name) => join(dataDir, name))) {
    const isMoved = !(await lstat(path).catch(() => undefined)) && (await stat(moved).catch(() => undefined));
    await (isMoved ? rename(moved, path) : rm(moved, { force: true }));
  }
}

/** Returns the home, moved if its account cannot reach it and no server runs on it. */
async function reachableHome(dataDir: string, given: Home, log?: Log): Promise<Home> {
  const { home, account } = given;
  if ((await isReachable(home, account)) || (await serverOn(join(home, 'data'))) !== undefined) return given;
  const target = await newSystemHome();
  const moved = join(dataDir, `postgres.${basename(target)}.moved`);
  await symlink(target, moved);
  try {
    await rename(home, target);
  } catch (cause) {
    await rm(moved, { force: true });
    if (!hasCode(cause, 'EXDEV')) throw cause;
    throw new UnusableError(
      `User ${account?.uid}, which runs PostgreSQL, cannot enter a folder above ${home}`,
      'Make each of them accessible (chmod o+x), or set HALCYON_DATA to a folder that all users can enter',
      cause,
    );
  }
  await rename(moved, join(dataDir, 'postgres'));
  log?.info({ dataDir, home: target }, `user ${account?.uid} cannot reach ${home}: the database moved to ${target}`);
  return { home: await realpath(target), account };
}

// Generates and keeps the password of the embedded cluster's superuser.

const passwordPath = (dataDir: string): string => join(dataDir, 'postgres-password');

/** Returns the password of the cluster; undefined before its first start. */
async function readPassword(dataDir: string): Promise<string | undefined> {
  return readFile(passwordPath(dataDir), 'utf8').then(
    (text) => text.trim(),
    (error: NodeJS.ErrnoException) => {
      // ENOTDIR: there is a file in the place of the folder; a start reports it.
      if (hasCode(error, 'ENOENT', 'ENOTDIR')) return undefined;
      throw unreadable(passwordPath(dataDir), error, 'Restore the original file');
    },
  );
}

/** Returns the password, generated at the first call and kept in `<dataDir>/postgres-password` (mode 0600). */
async function readOrCreatePassword(dataDir: string): Promise<string> {
  const path = passwordPath(dataDir);
  try {
    const kept = await readPassword(dataDir);
    if (kept !== undefined) return kept;
    const password = randomBytes(24).toString('base64url');
    const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
    await writeFile(temporary, `${password}\n`, { mode: 0o600, flush: true });
    // A link instead of a rename does not overwrite the password of a concurrent start.
    await link(temporary, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error;
    });
    await rm(temporary);
    return (await readPassword(dataDir)) ?? password;
  } catch (error) {
    throw error instanceof DatabaseError ? error : unwritable(dataDir, error);
  }
}

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
  await using started = new AsyncDisposableStack();
  started.defer(() => removeSocketDirectory(directory));
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
  started.defer(postmaster.stop);
  started.defer(() => sql.end({ timeout: 0 }));
  await claim(sql);
  log?.info({ home: dirname(data), postmaster: postmaster.pid }, 'embedded PostgreSQL is ready');
  const running = started.move();
  let stopping: Promise<void> | undefined;
  return { address, stop: () => (stopping ??= running.disposeAsync()), exited: postmaster.exited };
}
