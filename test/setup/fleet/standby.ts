/** A primary with a synchronous standby, and an address that leads to the one that accepts writes. */
import { execFile } from 'node:child_process';
import { chmod, chown, mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { openPool } from '#db/pool.ts';
import { startPostmaster } from '#db/cluster.ts';
import { startDebianServer } from '../debian-server.ts';
import type { Cleanups } from '../cleanups.ts';
import { isRoot, UNPRIVILEGED } from '../embedded-process.ts';
import { until } from '../until.ts';
import { killWhole, type OwnServer } from './server.ts';

/** pg_basebackup is not among the embedded binaries. */
const FOLDER = '/usr/lib/postgresql/15';
const account = isRoot ? UNPRIVILEGED : {};
const run = promisify(execFile);

/** Atomically replaces the link to `home`. */
async function lead(link: string, home: string): Promise<void> {
  await symlink(home, `${link}.next`);
  await rename(`${link}.next`, link);
}

/** The server; its start after a kill is the promotion of its standby. The url names both, the address follows a link to one. */
export async function openPair(ends: Cleanups): Promise<OwnServer & { url: string }> {
  const primary = await startDebianServer(ends, { durable: true });
  const home = await mkdtemp(join(tmpdir(), 'halcyon-standby-'));
  ends.after(() => rm(home, { recursive: true, force: true, maxRetries: 3 }));
  await chmod(home, 0o755);
  const data = join(home, 'data');
  await mkdir(data, { mode: 0o700 });
  if (isRoot) for (const path of [home, data]) await chown(path, UNPRIVILEGED.uid, UNPRIVILEGED.gid);
  const { directory, user, database } = primary.address;
  const backUp = ['-h', directory, '-U', user, '-D', data, '-R', '-X', 'stream', '-c', 'fast', '--no-sync'];
  await run(join(FOLDER, 'bin', 'pg_basebackup'), backUp, { cwd: home, env: { PATH: '/usr/bin:/bin' }, ...account });
  const where = {
    account: isRoot ? UNPRIVILEGED : undefined,
    data,
    socketDirectory: home,
    logFile: join(home, 'server.log'),
  };
  const standby = await startPostmaster({ binaries: FOLDER, ...where, durable: true });
  ends.after(() => standby.stop());
  const sql = openPool(primary.address, { connections: 1, applicationName: 'test-admin' });
  await sql`alter system set synchronous_standby_names = '*'`;
  await sql`select pg_reload_conf()`;
  await until(
    () => sql<{ state: string }[]>`select sync_state as state from pg_stat_replication`,
    ([row]) => row?.state === 'sync',
  );
  await sql.end();
  const link = join(home, 'primary');
  await lead(link, directory);
  const hosts = encodeURIComponent(`${directory},${home}`);
  return {
    url: `postgres://${user}@localhost/${database}?host=${hosts}&target_session_attrs=read-write`,
    address: { kind: 'socket', directory: link, user, password: '', database },
    kill: () => killWhole(primary.postmaster),
    stop: () => primary.postmaster.stop(),
    start: async () => {
      await run(join(FOLDER, 'bin', 'pg_ctl'), ['promote', '--wait', '-D', data], { cwd: home, ...account });
      await lead(link, home);
    },
  };
}
