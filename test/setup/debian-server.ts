/** Debian's PostgreSQL with its client programs: the oldest supported version, and its pg_dump. */
import { execFile } from 'node:child_process';
import { appendFile, chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { DatabaseAddress } from '#db/pool.ts';
import { startPostmaster, type Postmaster } from '#db/cluster.ts';
import type { Cleanups } from './cleanups.ts';

const FOLDER = '/usr/lib/postgresql/15';
const UNPRIVILEGED = { uid: 65_534, gid: 65_534 };
const USER = 'halcyon';

export type DebianServer = {
  postmaster: Postmaster;
  address: Extract<DatabaseAddress, { kind: 'socket' }>;
  /** Returns the command line and environment of a client program for this database. */
  client: (
    program: string,
    database: string,
    args: readonly string[],
  ) => [string, string[], { env: NodeJS.ProcessEnv }];
};

/**
 * Starts a new cluster in a temporary folder, removed with the test. Clusters of the machine are not touched. `settings`: lines for
 * postgresql.conf.
 */
export async function startDebianServer(
  ends: Cleanups,
  { durable = false, settings = '' } = {},
): Promise<DebianServer> {
  const account = process.getuid?.() === 0 ? UNPRIVILEGED : undefined;
  const home = await mkdtemp(join(tmpdir(), 'halcyon-debian-'));
  ends.after(() => rm(home, { recursive: true, force: true }));
  await chmod(home, 0o755);
  const data = join(home, 'data');
  await mkdir(data, { mode: 0o700 });
  if (account) for (const path of [home, data]) await chown(path, account.uid, account.gid);
  const args = ['-D', data, '-U', USER, '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync', '--no-instructions'];
  await promisify(execFile)(join(FOLDER, 'bin/initdb'), args, {
    ...account,
    cwd: home,
    env: { PATH: '/usr/bin:/bin' },
  });
  await appendFile(join(data, 'postgresql.conf'), settings);
  const postmaster = await startPostmaster({
    binaries: FOLDER,
    account,
    data,
    socketDirectory: home,
    logFile: join(home, 'server.log'),
    durable,
  });
  ends.after(() => postmaster.stop());
  return {
    postmaster,
    address: { kind: 'socket', directory: home, user: USER, password: '', database: 'postgres' },
    client: (program, database, more) => [
      join(FOLDER, 'bin', program),
      ['-h', home, '-U', USER, '-d', database, ...more],
      { env: { PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8' } },
    ],
  };
}
