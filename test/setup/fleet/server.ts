/** A PostgreSQL for one test, durable: stopped, killed and started again on the same data. */
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPackage, usableBinaries } from '#db/data-folder.ts';
import { openCluster, OWNER, startPostmaster, type Postmaster } from '#db/cluster.ts';
import { openPool, type DatabaseAddress } from '#db/pool.ts';
import type { Cleanups } from '../cleanups.ts';
import { ended, isRoot, UNPRIVILEGED } from '../embedded-process.ts';
import { urlOf } from '../database.ts';

export type SocketAddress = Extract<DatabaseAddress, { kind: 'socket' }>;

export type OwnServer = {
  /** The database `halcyon` of the server. */
  address: SocketAddress;
  start: () => Promise<void>;
  /** `fast` ends running sessions (SIGINT); `immediate` is a crash that the next start recovers from (SIGQUIT). */
  stop: (how: 'fast' | 'immediate') => Promise<void>;
  /** `kill -9` of the server and all its processes, as on a power failure. */
  kill: () => Promise<void>;
};

/** A server that can also hang, with a log of its connections. */
export type WatchedServer = OwnServer & {
  /** The address of the database as a url. */
  url: string;
  /** SIGSTOP of the server and all its processes: connections stay open, and nothing responds. */
  freeze: () => Promise<void>;
  /** SIGCONT. */
  thaw: () => Promise<void>;
  /** Returns how many connections of users the server has had since its log began. */
  accepted: () => Promise<number>;
};

const CACHE = '/var/cache/halcyon';
const PASSWORD = 'fleet';

const childrenOf = async (pid: number): Promise<number[]> =>
  (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => ''))
    .trim()
    .split(' ')
    .filter(Boolean)
    .map(Number);

function signalQuietly(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It ended between the check and the signal.
  }
}

type ServerOptions = {
  settings?: Readonly<Record<string, string>>;
  binaries?: string;
  /** Prepares its data folder before the first start. */
  prepare?: (data: string) => Promise<void>;
};

/** Sends a signal to a server and all its processes, and returns their ids. */
async function signalWhole({ pid }: Postmaster, signal: NodeJS.Signals): Promise<number[]> {
  const pids = [pid, ...(await childrenOf(pid))];
  for (const one of pids) signalQuietly(one, signal);
  return pids;
}

/** `kill -9` of a server and all its processes. */
export async function killWhole(postmaster: Postmaster): Promise<void> {
  const pids = await signalWhole(postmaster, 'SIGKILL');
  await postmaster.exited;
  await Promise.all(pids.map(ended));
}

/**
 * Starts it. `settings` go into its postgresql.conf; the command line of `startPostmaster` takes precedence over them.
 * `binaries` is a folder with `bin/postgres` to start instead of the one that created the cluster, such as one that sets its
 * environment first, say.
 */
export async function openServer(
  ends: Cleanups,
  { settings = {}, binaries, prepare }: ServerOptions = {},
): Promise<WatchedServer> {
  const account = isRoot ? UNPRIVILEGED : undefined;
  const home = await mkdtemp(join(tmpdir(), 'halcyon-fleet-'));
  ends.after(() => rm(home, { recursive: true, force: true, maxRetries: 3 }));
  await chmod(home, 0o755);
  if (account) await chown(home, account.uid, account.gid);
  const found = await usableBinaries(await findPackage(), { account, cache: isRoot ? CACHE : home });
  const data = await openCluster({ home, account }, { binaries: found, password: PASSWORD, durable: true });
  const lines = Object.entries(settings).map(([name, value]) => `${name} = '${value}'\n`);
  await writeFile(join(data, 'postgresql.conf'), lines.join(''), { flag: 'a' });
  await prepare?.(data);

  let postmaster: Postmaster | undefined;
  const logFile = join(home, 'server.log');
  const signal = async (name: NodeJS.Signals): Promise<void> => {
    if (postmaster !== undefined) await signalWhole(postmaster, name);
  };
  const start = async (): Promise<void> => {
    const where = { account, data, socketDirectory: home, logFile, durable: true };
    postmaster = await startPostmaster({ binaries: binaries ?? found, ...where });
  };
  ends.after(async () => {
    await signal('SIGCONT');
    await postmaster?.stop();
  });
  await start();
  const address = { kind: 'socket', directory: home, user: OWNER, password: PASSWORD, database: OWNER } as const;
  const admin = openPool({ ...address, database: 'postgres' }, { connections: 1, applicationName: 'test-admin' });
  await admin`create database ${admin(OWNER)}`;
  await admin.end();
  return {
    address,
    url: urlOf(address),
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    accepted: async () => (await readFile(logFile, 'utf8')).split('connection authorized').length - 1,
    start,
    stop: async (how) => {
      if (how === 'immediate') process.kill(postmaster?.pid ?? 0, 'SIGQUIT');
      else await postmaster?.stop();
      await postmaster?.exited;
    },
    kill: async () => {
      if (postmaster !== undefined) await killWhole(postmaster);
    },
  };
}
