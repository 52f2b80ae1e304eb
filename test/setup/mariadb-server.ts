/** Debian's MariaDB with a new data folder, killed and started again. */
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createConnection } from 'mysql2/promise';
import type { Cleanups } from './cleanups.ts';
import { isRoot, UNPRIVILEGED } from './embedded-process.ts';
import { freePort } from './free-port.ts';
import { until } from './until.ts';

const USER = 'root';

export type MariadbServer = {
  /** The address of the database `shop`. */
  url: string;
  /** `kill -9`. */
  kill: () => Promise<void>;
  start: () => Promise<void>;
};

/** Starts it on a port of loopback; its user has no password. Servers of the machine are not touched. */
export async function startMariadb(ends: Cleanups): Promise<MariadbServer> {
  const account = isRoot ? UNPRIVILEGED : {};
  const home = await mkdtemp(join(tmpdir(), 'halcyon-mariadb-'));
  ends.after(() => rm(home, { recursive: true, force: true, maxRetries: 3 }));
  await chmod(home, 0o755);
  const data = join(home, 'data');
  await mkdir(data);
  if (isRoot) for (const path of [home, data]) await chown(path, UNPRIVILEGED.uid, UNPRIVILEGED.gid);
  const options = { cwd: home, env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: home }, ...account };
  const folder = ['--no-defaults', `--datadir=${data}`];
  const install = [...folder, '--auth-root-authentication-method=normal', '--skip-test-db'];
  await promisify(execFile)('/usr/bin/mariadb-install-db', install, options);
  const port = await freePort();
  const urlOf = (database: string) => `mysql://${USER}@127.0.0.1:${port}/${database}`;

  let child: ChildProcess | undefined;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  };
  const accepts = async (): Promise<boolean> => {
    try {
      await (await createConnection(urlOf('mysql'))).end();
      return true;
    } catch {
      return false;
    }
  };
  const start = async (): Promise<void> => {
    const args = [...folder, `--socket=${join(home, 'socket')}`, `--port=${port}`, '--bind-address=127.0.0.1'];
    child = spawn('/usr/sbin/mariadbd', args, { ...options, stdio: 'ignore' });
    await until(accepts, (isAccepted) => isAccepted);
  };
  ends.after(() => end('SIGTERM'));
  await start();
  const admin = await createConnection(urlOf('mysql'));
  await admin.query('create database shop');
  await admin.end();
  return { url: urlOf('shop'), kill: () => end('SIGKILL'), start };
}
